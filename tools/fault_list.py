"""The faults that `tools/faults` tries: where, what stands there exactly once, and what stands there instead.

Those of the first part have the names that issue and design give them; the second part has what protects beside them.
A fault names the tests that have to notice it: the model's, if one can, and one that has real processes.
"""

MODEL = "model"


def cli(name, test):
    return ("killcord-cli", ["--test", name], test)


def library(test):
    return ("killcord", ["--test", "library"], test)


def sys_unit(test):
    return ("killcord-sys", ["--lib"], test)


def sys_test(name, test):
    return ("killcord-sys", ["--test", name], test)


def model(test):
    return (MODEL, ["--lib"], test)


class Fault:
    def __init__(self, name, file, old, new, *tests, also=()):
        self.name, self.edits, self.tests = name, [(file, old, new), *also], tests


SWEEP_RS = "crates/killcord-model/src/sweep.rs"
CLAIM = "crates/killcord/src/claim"
FILES = "crates/killcord-sys/src/linux/files.rs"
JOB_RS = "crates/killcord-model/src/job.rs"
LADDER = "crates/killcord-model/src/ladder.rs"
WARDEN_RS = "crates/killcord-model/src/warden.rs"
KEEPER = "crates/killcord/src/keeper/mod.rs"
KEEPER_END = "crates/killcord/src/keeper/end.rs"
START = "crates/killcord/src/keeper/start.rs"
WATCH = "crates/killcord/src/keeper/watch.rs"
CHILD = "crates/killcord-sys/src/linux/leader/child.rs"

FAULTS = [
    Fault(
        "a running job also allows removal",
        SWEEP_RS,
        "(OwnerProof::Dead, LeaseProof::Free, JobsProof::Over) => Verdict::Remove,",
        "(OwnerProof::Dead, LeaseProof::Free, JobsProof::Over | JobsProof::Running) => Verdict::Remove,",
        model("exactly_one_of_the_twenty_seven_states_removes"),
    ),
    Fault(
        "a running job also allows removal, seen from outside",
        SWEEP_RS,
        "(OwnerProof::Dead, LeaseProof::Free, JobsProof::Over) => Verdict::Remove,",
        "(OwnerProof::Dead, LeaseProof::Free, JobsProof::Over | JobsProof::Running) => Verdict::Remove,",
        cli("sweep", "a_released_job_keeps_its_files_until_it_ends"),
    ),
    Fault(
        "the lease is not asked",
        SWEEP_RS,
        "(_, LeaseProof::Held, _) => Verdict::Keep(Reason::LeaseHeld),",
        "(OwnerProof::Dead, LeaseProof::Held, JobsProof::Over) => Verdict::Remove,\n"
        "        (_, LeaseProof::Held, _) => Verdict::Keep(Reason::LeaseHeld),",
        model("exactly_one_of_the_twenty_seven_states_removes"),
    ),
    Fault(
        "the lease is taken for free",
        f"{CLAIM}/read.rs",
        "Ok(false) => Lease::Held,",
        "Ok(false) => Lease::Ours(file),",
        cli("sweep", "who_holds_the_lease_keeps_the_claim"),
    ),
    Fault(
        "Unknown read as Dead: of an owner elsewhere",
        SWEEP_RS,
        "(Where::Elsewhere, _) | (Where::Here, Seen::Unknown) => None,",
        "(Where::Elsewhere, _) | (Where::Here, Seen::Unknown) => Some(false),",
        model("an_owner_is_dead_only_by_proof"),
    ),
    Fault(
        "Unknown read as Dead: of a marker that says nothing",
        f"{CLAIM}/read.rs",
        "Marker::Missing | Marker::Unreadable(_) => OwnerProof::Unknown,",
        "Marker::Missing | Marker::Unreadable(_) => OwnerProof::Dead,",
        cli("hostile_claims", "a_marker_is_a_file_of_ours_or_says_nothing"),
    ),
    Fault(
        "a sweep ends what was let go",
        SWEEP_RS,
        "record.state == State::Started && owner",
        "record.state != State::Reserved && owner",
        model("only_a_job_that_nobody_answers_for_is_ended"),
    ),
    Fault(
        "a sweep ends what was let go, seen from outside",
        SWEEP_RS,
        "record.state == State::Started && owner",
        "record.state != State::Reserved && owner",
        cli("sweep", "a_released_job_keeps_its_files_until_it_ends"),
        # Either protection would do here.
        also=[(f"{CLAIM}/sweeper.rs", "record.state == State::Released && proof", "self.is_late() && proof")],
    ),
    Fault(
        "a sweep waits for the caretaker of another job: what a killed keeper left is not ended",
        SWEEP_RS,
        "lease == LeaseProof::Free || keeper == KeeperProof::Dead",
        "lease == LeaseProof::Free || (keeper == KeeperProof::Dead && lease == LeaseProof::Free)",
        model("a_living_caretaker_of_another_job_does_not_keep_what_a_killed_keeper_left"),
        library("a_living_caretaker_keeps_no_sweep_from_what_a_killed_keeper_left"),
    ),
    Fault(
        "a fresh warden does not look for what was left before it",
        f"{CLAIM}/sweeper.rs",
        "(ours && sweep::has_lost_its_keeper(record, keeper))",
        "(ours && owner == OwnerProof::Dead && sweep::has_lost_its_keeper(record, keeper))",
        library("a_fresh_warden_ends_what_a_dropped_job_left_whose_guards_were_killed"),
    ),
    Fault(
        "a warden has no answer about a job that was let go",
        WARDEN_RS,
        "vec![Effect::Tell(job, Sight::Unknown), Effect::Forget(job)]",
        "vec![Effect::Forget(job)]",
        model("a_released_job_is_never_ended"),
    ),
    Fault(
        "a warden hears of a release by word alone: what was let go and could not be said is ended",
        "crates/killcord/src/warden/serve.rs",
        "let_go.then_some(Event::Released(job))",
        "(let_go && false).then_some(Event::Released(job))",
        library("what_was_let_go_by_a_keeper_that_was_killed_is_not_ended_and_the_owner_hears_so_at_once"),
    ),
    Fault(
        "what is older than the keeper may be the job's",
        SWEEP_RS,
        "start >= keeper.start",
        "start > 0 || start >= keeper.start",
        model("what_is_older_than_the_keeper_is_not_of_its_job"),
    ),
    Fault(
        "a newer version is read all the same",
        "crates/killcord-model/src/record.rs",
        "newer => Err(Unreadable::Newer(newer)),",
        "_ => serde_json::from_slice::<Versioned<T>>(text).map(|r| r.what).map_err(malformed),",
        model("a_newer_version_says_nothing_whatever_it_looks_like"),
    ),
    Fault(
        "jobs never registered",
        f"{CLAIM}/records.rs",
        "        let text = record::encode(what).map_err(io::Error::other)?;\n        let name = job.to_string();",
        "        if !job.to_string().is_empty() { return Ok(()); }\n"
        "        let text = record::encode(what).map_err(io::Error::other)?;\n        let name = job.to_string();",
        cli("sweep", "what_is_left_when_owner_warden_and_keeper_die_together_is_the_successors"),
    ),
    Fault(
        "marker first",
        f"{CLAIM}/make.rs",
        '        hooks::point("claim.lease");\n        let held = files::hold(lease.as_fd())?;',
        '        files::write_whole_at(dir.as_fd(), ".owner".as_ref(), OWNER.as_ref(), b"")?;\n'
        '        hooks::point("claim.lease");\n        let held = files::hold(lease.as_fd())?;',
        cli("kill_points", "whoever_is_killed_at_a_point_leaves_nothing_that_a_sweep_leaves"),
    ),
    Fault(
        "the job's end is written down before it is empty",
        "crates/killcord/src/keeper/end.rs",
        "        let usage = self.usage();\n        let leaf",
        "        let _ = self.claim.map(|claim| claim.forget(self.request.job));\n"
        "        let usage = self.usage();\n        let leaf",
        cli("sweep", "a_released_job_keeps_its_files_until_it_ends"),
    ),
    Fault(
        "links followed when reading",
        FILES,
        "let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;\n    let place",
        "let flags = OFlags::PATH | OFlags::CLOEXEC;\n    let place",
        cli("hostile_claims", "a_record_is_a_file_of_ours_or_says_nothing"),
    ),
    Fault(
        "whatever stands there is opened",
        FILES,
        "1 if found.kind == Kind::File && found.owner == uid => Ok(found),",
        "1 if found.owner == uid => Ok(found),",
        cli("hostile_claims", "a_lease_is_a_file_of_ours_whatever_is_in_it"),
    ),
    Fault(
        "the list of jobs may be a link",
        FILES,
        "OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC)",
        "OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC)",
        cli("hostile_claims", "the_place_of_records_is_a_directory"),
    ),
    Fault(
        "links followed when removing",
        "crates/killcord-sys/src/linux/beneath.rs",
        "let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;\n        if self.openat2 {",
        "let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;\n"
        "        if at.as_raw_fd() >= 0 { return Ok(rustix::fs::openat(at, name, flags, Mode::empty())?); }\n"
        "        if self.openat2 {",
        # An exchange in between is what it takes to be led astray, which a race shows only now and then.
        sys_unit("a_step_leads_into_a_directory_and_nothing_else"),
    ),
    Fault(
        "mounts are entered when removing",
        "crates/killcord-sys/src/linux/beneath.rs",
        "if mount_of(dir.as_fd())? == mount { Ok(dir) } else { Err(Errno::XDEV.into()) }\n    }",
        "if mount_of(dir.as_fd())? == mount { Ok(dir) } else { Ok(dir) }\n    }",
        sys_unit("a_step_leads_into_no_mount_even_of_the_same_file_system"),
    ),
    Fault(
        "the jobs of the living are not excluded",
        f"{CLAIM}/sweeper.rs",
        "!tagged && !self.living.contains(&standing.id)",
        "tagged || self.living.contains(&standing.id) || self.swept.removed < u64::MAX",
        cli("sweep", "a_living_job_is_not_touched_whatever_another_claim_says_of_it"),
    ),
    Fault(
        "directories of other makers are claims",
        f"{CLAIM}/mod.rs",
        "rest.len() == 8 && rest.iter().all(digit)",
        "rest.len() < 9 || rest.iter().all(digit)",
        cli("sweep", "a_claim_goes_when_its_owner_is_dead_and_no_sooner"),
    ),
    Fault(
        "a tag of older processes is taken for the job's",
        "crates/killcord-sys/src/linux/mark.rs",
        "let spared = ours.contains(&me) || ours.contains(&1) || found.not_the_jobs_tag;",
        "let spared = ours.contains(&me) || ours.contains(&1);",
        cli("sweep", "the_tag_of_older_processes_is_somebody_elses"),
    ),
    Fault(
        "a sweeper kills itself",
        "crates/killcord-sys/src/linux/mark.rs",
        "let spared = ours.contains(&me) || ours.contains(&1) || found.not_the_jobs_tag;",
        "let spared = ours.contains(&1) || found.not_the_jobs_tag || me == 0;",
        cli("sweep", "a_sweeper_inside_what_it_finds_is_not_killed"),
    ),
]


# What the issue and the design name, beside those above.
FAULTS += [
    Fault(
        "liveness asks the pid instead of the boundary: a sweep asks the keeper",
        f"{CLAIM}/sweeper.rs",
        "traces::look(id, record).map_or(JobsProof::Unknown, |seen| sweep::job(record, &self.here, seen))",
        "if record.keeper.is_some_and(|k| super::read::seen(k.pid) == sweep::Seen::Gone) { return JobsProof::Over; }\n"
        "        traces::look(id, record).map_or(JobsProof::Unknown, |seen| sweep::job(record, &self.here, seen))",
        cli("sweep", "what_is_left_when_owner_warden_and_keeper_die_together_is_the_successors"),
    ),
    Fault(
        "liveness asks the pid instead of the boundary: a keeper asks its leader",
        KEEPER_END,
        "Held::Tree | Held::Namespace => sight(no_child),",
        "Held::Tree | Held::Namespace => sight(self.leader.is_none() || no_child),",
        cli("signals", "killcord_run_is_not_back_before_the_last_member_is_gone"),
        cli("escape", "nobody_outlives_a_leader_that_exits"),
    ),
    Fault(
        "no sweep at start",
        f"{CLAIM}/sweeper/background.rs",
        "if !has_others(&root, Some(own)) && !has_lost(claim) {",
        "if (!has_others(&root, Some(own)) && !has_lost(claim)) || !own.is_empty() {",
        cli("sweep", "what_is_left_when_owner_warden_and_keeper_die_together_is_the_successors"),
    ),
    Fault(
        "no claim",
        f"{CLAIM}/make.rs",
        "let path = root.path.clone();",
        'let path = root.path.clone();\n'
        '        if path.is_absolute() { return Ok(Err(io::Error::other("no claim"))); }',
        cli("sweep", "what_is_left_when_owner_warden_and_keeper_die_together_is_the_successors"),
        cli("listing", "the_json_has_these_fields_and_they_are_true"),
    ),
    Fault(
        "no HUP",
        JOB_RS,
        "                if leader_runs {\n                    out.push(Effect::Signal(To::Members, Signal::Hup));",
        "                if leader_runs && !leader_runs {\n"
        "                    out.push(Effect::Signal(To::Members, Signal::Hup));",
        model("a_ladder_that_began_with_int_asks_with_term_as_well"),
        library("interactive_shells_end_at_the_hang_up"),
    ),
    Fault(
        "HUP before TERM",
        JOB_RS,
        "            out.push(Effect::Signal(To::Members, ladder.ask));\n",
        "            out.push(Effect::Signal(To::Members, Signal::Hup));\n"
        "            out.push(Effect::Signal(To::Members, ladder.ask));\n",
        model("every_rung_says_exactly_this_and_in_this_order"),
        library("term_has_its_turn_before_hup"),
    ),
    Fault(
        "no CONT after TERM",
        JOB_RS,
        "            out.push(Effect::Signal(To::Members, ladder.ask));\n"
        "            out.push(Effect::Signal(To::Members, Signal::Cont));\n",
        "            out.push(Effect::Signal(To::Members, ladder.ask));\n",
        model("every_rung_says_exactly_this_and_in_this_order"),
        cli("signals", "stopped_members_are_ended_as_well"),
    ),
    Fault(
        "members of a dead leader not ended",
        JOB_RS,
        "                self.end(Ladder::short(), Cause::LeaderExited, Leader::Gone, fate, now, out);",
        "                self.finish(Cause::LeaderExited, Some(Sight::Members), fate, out);",
        model("leftovers_drain_then_get_the_short_ladder"),
        cli("scenarios", "h2a_a_daemon_ends_with_its_leader"),
    ),
    Fault(
        "teardown tied to the caller: whoever asked for the end has to wait for it",
        JOB_RS,
        "            Event::OwnerGone => climb.shorten(now.after(self.orphaned.grace)),",
        "            Event::OwnerGone => {\n"
        "                let (cause, fate) = (*cause, *fate);\n"
        "                self.finish(cause, Some(Sight::Unknown), fate, out);\n"
        "            }",
        model("no_sequence_leaves_a_started_job_that_nobody_will_end"),
        library("dropping_the_job_in_the_middle_of_a_long_ladder_shortens_it"),
    ),
    Fault(
        "teardown tied to the caller: the keeper goes with the cord",
        WATCH,
        "                self.cord = None;\n                hooks::point(\"keeper.lost_cord\");\n                events.push_back(Event::OwnerGone);",
        "                process::exit_now(1);",
        library("dropping_the_job_ends_it"),
    ),
    Fault(
        "no KILL on a second order",
        JOB_RS,
        "            Event::Order(Order::End(ladder)) => climb.shorten(now.after(ladder.grace)),",
        "            Event::Order(Order::End(_)) => {}",
        model("whatever_is_said_while_it_ends_makes_it_only_shorter"),
        cli("signals", "a_second_order_shortens_the_ladder"),
    ),
    Fault(
        "exec before the boundary is armed: the leader enters its cgroup when it runs",
        START,
        "        let mut plan = self.plan(given)?;\n        let started = plan.start();",
        "        let mut plan = self.plan(given)?;\n"
        "        if let Some(leaf) = self.held.leaf() {\n"
        "            plan.born_in = None;\n"
        "            let leader = plan.start()?;\n"
        "            socket::write(leaf.procs()?.as_fd(), leader.pid.to_string().as_bytes())?;\n"
        "            return Ok((leader, plan.paths));\n"
        "        }\n"
        "        let started = plan.start();",
        cli("gate", "a_program_is_in_its_boundary_from_its_first_instruction"),
    ),
    Fault(
        "exec before the boundary is armed: nobody is a subreaper for the job",
        KEEPER,
        "Held::Tree | Held::Cgroup { .. } => process::become_subreaper()?,",
        "Held::Tree | Held::Cgroup { .. } => {}",
        cli("escape", "nobody_outlives_a_leader_that_exits"),
    ),
    Fault(
        "exec before the boundary is armed: before it is written down",
        START,
        "        claim.record(job, &record).map_err(|e| not_recorded(claim, Stage::Record, &e))?;\n"
        "        self.record = Some(record);",
        "        self.record = Some(record);",
        cli("gate", "a_program_is_in_its_boundary_from_its_first_instruction"),
    ),
    Fault(
        "signal after the reap: the number that pins a group is given up",
        WATCH,
        "            events.push_back(Event::LeaderExited(status));\n        }\n        Ok(false)",
        "            let _ = child::wait_for(pid);\n"
        "            events.push_back(Event::LeaderExited(status));\n        }\n        Ok(false)",
        cli("recycled", "on_group_the_leaders_number_is_not_free_before_the_end"),
    ),
    Fault(
        "signal after the reap: a number is taken for who had it",
        "crates/killcord-sys/src/linux/tree.rs",
        "    let same = again.start == member.start && (again.parent == member.parent || again.parent == me);",
        "    let same = again.pid == member.pid || again.parent == me;",
        sys_unit("a_number_that_is_somebody_elses_by_now_is_not_signalled"),
    ),
    Fault(
        "one kill pass instead of repeated",
        LADDER,
        "self.rung = Rung::Killing { next: now.after(KILL_AGAIN), give_up: now.after(LOOK) };",
        "self.rung = Rung::Killing { next: now.after(LOOK), give_up: now.after(LOOK) };",
        # A bomb is caught in the first pass but now and then.
        model("a_boundary_that_never_empties_is_said_after_the_look"),
    ),
    Fault(
        "zombies counted as living",
        "crates/killcord-sys/src/linux/proc.rs",
        "matches!(self.state, b'X' | b'x') || (self.state == b'Z' && self.threads <= 1)",
        "matches!(self.state, b'X' | b'x')",
        sys_unit("a_zombie_of_several_threads_is_alive"),
        cli("gate", "zombies_in_the_job_are_no_members"),
    ),
    Fault(
        "retry after unclear",
        "crates/killcord/src/command.rs",
        "                Job::begin(cord, Arc::clone(&self.shared), ends, &request.spec.program)",
        "                match Job::begin(cord, Arc::clone(&self.shared), ends, &request.spec.program) {\n"
        "                    Err(Error::Unclear { .. }) => self.spawn(),\n"
        "                    known => known,\n"
        "                }",
        library("heavy_guards_killed_at_any_instant_of_a_start_run_the_program_at_most_once"),
    ),
    Fault(
        "retry after a request that nobody answered",
        "crates/killcord/src/command.rs",
        "                Job::begin(cord, Arc::clone(&self.shared), ends, &request.spec.program)",
        "                match Job::begin(cord, Arc::clone(&self.shared), ends, &request.spec.program) {\n"
        "                    Err(Error::NoWarden { .. }) => self.spawn(),\n"
        "                    known => known,\n"
        "                }",
        library("a_warden_killed_with_the_request_unread_has_run_nothing"),
    ),
    Fault(
        "drop order of record and boundary swapped",
        KEEPER_END,
        "        if !stays {\n            self.remove_boundary();\n        }\n",
        "        if !stays {\n            let _ = self.clear(CLEAR_WITHIN);\n            self.remove_boundary();\n        }\n",
        cli("gate", "a_job_is_struck_out_after_its_cgroup_is_gone"),
        cli("crash_points", "a_job_is_struck_out_only_when_nothing_is_left_of_it"),
    ),
    Fault(
        "acknowledgement before containment",
        START,
        "leaf.procs().and_then(|procs| leader::try_entering(leaf.dir(), procs.as_fd()))",
        "leaf.procs().map(drop)",
        cli("weak_cgroup", "a_session_says_what_it_has_got"),
    ),
    Fault(
        "exec before the acknowledgement",
        KEEPER,
        "        if !self.request.wait_for_go {\n",
        "        if !self.request.wait_for_go || !events.is_empty() || self.cord.is_some() {\n",
        cli("session", "nothing_runs_before_the_line_is_written_and_the_starter_is_not_deaf_meanwhile"),
    ),
    Fault(
        "keeper's cord inherited by the job",
        "crates/killcord-sys/src/linux/descriptors.rs",
        "    fd.as_fd().as_raw_fd()\n}",
        "    let _ = rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty());\n    fd.as_fd().as_raw_fd()\n}",
        cli("streams", "a_job_has_the_standard_descriptors_and_no_other"),
        # The net under close-on-exec.
        also=[(
            CHILD,
            "        let _ = plain(libc::SYS_close_range, [3, all, libc::CLOSE_RANGE_CLOEXEC as usize, 0]);",
            "        let _ = all;",
        )],
    ),
    Fault(
        "PDEATHSIG without its handshake",
        CHILD,
        "if plain(libc::SYS_getppid, [0; 4]) != Ok(self.keeper as usize) {",
        "if plain(libc::SYS_getppid, [0; 4]).is_err() {",
        sys_test("leader", "a_leader_whose_keeper_died_before_the_death_signal_was_armed_executes_nothing"),
    ),
    Fault(
        "no PDEATHSIG",
        CHILD,
        "let signal = libc::SIGKILL as usize;",
        "let signal = 0usize;",
        cli("death", "all_three_are_killed_at_once"),
    ),
]

# What is worth having beside them.
FAULTS += [
    Fault(
        "the owner's end shows by the cord alone",
        WATCH,
        "(self.owner.as_ref().map(AsFd::as_fd), Interest::Read),",
        "(self.owner.as_ref().map(AsFd::as_fd).filter(|_| self.cord.is_none()), Interest::Read),",
        library("a_forked_copy_of_the_host_keeps_nothing_alive"),
    ),
    Fault(
        "the cord is the owner's pidfd alone",
        WATCH,
        "(self.cord.as_ref().map(AsFd::as_fd), Interest::Read),",
        "(self.cord.as_ref().map(AsFd::as_fd).filter(|_| self.owner.is_none()), Interest::Read),",
        library("dropping_the_job_ends_it"),
    ),
    Fault(
        "a keeper does not watch its warden",
        WATCH,
        "(self.alive.as_ref().map(AsFd::as_fd), Interest::Gone),",
        "(self.alive.as_ref().map(AsFd::as_fd).filter(|_| self.cord.is_none()), Interest::Gone),",
        cli("death", "the_warden_is_killed"),
        library("jobs_of_a_dead_warden_are_ended_and_say_so"),
    ),
    Fault(
        "anybody's signal to a keeper is the warden's order",
        WATCH,
        "let from_warden = process::parent_pid().unwrap_or(0) == arrived.sender;",
        "let from_warden = arrived.sender != process::own_pid();",
        cli("gate", "a_keeper_takes_orders_from_its_warden_alone"),
    ),
    Fault(
        "the owner's end is ignored while the job is ending",
        JOB_RS,
        "            Event::OwnerGone => climb.shorten(now.after(self.orphaned.grace)),",
        "            Event::OwnerGone => {}",
        model("whatever_is_said_while_it_ends_makes_it_only_shorter"),
        library("dropping_the_job_in_the_middle_of_a_long_ladder_shortens_it"),
    ),
    Fault(
        "an order to end is taken back by a release behind it",
        JOB_RS,
        "            // An order to end that was given is not taken back by a release behind it.\n",
        "            Event::Order(Order::Release) => {\n"
        "                let leader = *leader;\n"
        "                self.let_it_go(leader, out);\n"
        "            }\n",
        model("whatever_is_said_while_it_ends_makes_it_only_shorter"),
    ),
    Fault(
        "an owner that is gone before the start has its program started",
        JOB_RS,
        "            Event::OwnerGone => self.finish(Cause::OwnerGone, None, None, out),",
        "            Event::OwnerGone => {}",
        model("an_order_given_before_the_start_means_that_nothing_starts"),
    ),
    Fault(
        "the end is said without a last look",
        JOB_RS,
        "let over = *last_look || (*sight == Sight::Empty && *leader == Leader::Gone);",
        "let over = *last_look || *leader == Leader::Gone;",
        model("the_end_is_not_reported_before_the_last_member_is_gone"),
        library("the_end_is_not_said_while_a_member_that_ignores_both_lives"),
    ),
    Fault(
        "a drain is left out",
        JOB_RS,
        "let until = now.after(DRAIN);",
        "let until = now;",
        model("leftovers_drain_then_get_the_short_ladder"),
        cli("reports", "a_last_writer_of_a_pipeline_is_no_leftover"),
    ),
    Fault(
        "leftovers are kept where they are to be ended",
        JOB_RS,
        "                    Leftovers::Keep => Life::Keeping { timeout_at, tell_at: Some(until) },\n"
        "                    Leftovers::End | Leftovers::Release => Life::Draining { until },",
        "                    Leftovers::Keep | Leftovers::End => Life::Keeping { timeout_at, tell_at: Some(until) },\n"
        "                    Leftovers::Release => Life::Draining { until },",
        model("leftovers_drain_then_get_the_short_ladder"),
        cli("reports", "leftovers_are_ended_and_named"),
    ),
    Fault(
        "a timeout is nobody's but the owner's",
        JOB_RS,
        "            Life::Running { timeout_at } => timeout_at,",
        "            Life::Running { timeout_at } => timeout_at.filter(|_| false),",
        model("a_timeout_is_a_deadline_of_the_keeper_from_the_clone_on"),
        library("a_timeout_climbs_the_ladder_without_the_owner"),
    ),
    Fault(
        "who has moved to another cgroup is not ended",
        KEEPER_END,
        "                Ok(()) => self.kill_tree(),",
        "                Ok(()) => Ok(()),",
        cli("gate", "a_member_that_moves_to_another_cgroup_is_still_one"),
    ),
    Fault(
        "who has moved to another cgroup does not count",
        KEEPER_END,
        "Ok(populated) => sight(!populated && no_child),",
        "Ok(populated) => sight(!populated || no_child),",
        cli("gate", "a_member_that_moves_to_another_cgroup_is_still_one"),
    ),
    Fault(
        "the warden ignores a lost keeper",
        WARDEN_RS,
        "            Event::KeeperLost(job) => self.keeper_lost(job, now),",
        "            Event::KeeperLost(_) => Vec::new(),",
        model("a_killed_keepers_job_is_ended_and_told_once"),
        library("a_keeper_killed_after_exec_is_an_end_and_no_new_start"),
    ),
    Fault(
        "the warden ends what is left once and not again",
        WARDEN_RS,
        "*ward = Ward::Lost { again: now.after(KILL_AGAIN), give_up: now.after(LOOK) };",
        "*ward = Ward::Lost { again: now.after(LOOK), give_up: now.after(LOOK) };",
        model("a_killed_keepers_job_is_ended_and_told_once"),
    ),
    Fault(
        "the warden is no subreaper",
        "crates/killcord/src/warden/mod.rs",
        "    process::become_subreaper()?;\n    process::set_dumpable(false)?;",
        "    process::set_dumpable(false)?;",
        library("it_is_not_taken_for_an_orphan"),
    ),
    Fault(
        "the warden leaves a keeper that does not finish",
        WARDEN_RS,
        "Ward::Guarded if late => effects.push(Effect::KillKeeper(*job)),",
        "Ward::Guarded if late => {}",
        model("a_keeper_that_does_not_finish_after_the_owners_death_is_killed"),
        cli("death", "a_keeper_that_cannot_run_is_killed_by_the_warden_when_the_owner_is"),
    ),
    Fault(
        "the warden does not continue a stopped keeper",
        WARDEN_RS,
        "            self.stopped.entry(job).or_insert(now.after(CONTINUE_AFTER));\n",
        "            let _ = (now, CONTINUE_AFTER);\n",
        model("a_stopped_keeper_is_continued_and_as_often_as_it_is_stopped"),
        cli("death", "an_order_reaches_a_stopped_keeper_whose_owner_lives"),
        cli("death", "a_job_that_stops_its_keeper_has_its_timeout_all_the_same"),
    ),
    Fault(
        "the warden forgets that a spare was stopped",
        "crates/killcord/src/warden/serve/start.rs",
        "(stopped == Some(ward.keeper)).then_some(Event::KeeperStopped(job))",
        "(stopped == Some(0)).then_some(Event::KeeperStopped(job))",
        library("stopped_before_it_has_a_job_it_goes_on_with_it"),
    ),
    Fault(
        "the warden ends a job that was let go",
        WARDEN_RS,
        "            Some(Ward::LetGo) => {\n"
        "                self.jobs.remove(&job);\n"
        "                self.spare_orphans = true;\n"
        "                // The keeper may have died before it told the owner, who waits for an answer then.\n"
        "                vec![Effect::Tell(job, Sight::Unknown), Effect::Forget(job)]\n"
        "            }\n"
        "            Some(ward @ (Ward::Guarded | Ward::Elsewhere)) => {",
        "            Some(ward @ (Ward::LetGo | Ward::Guarded | Ward::Elsewhere)) => {",
        model("a_released_job_is_never_ended"),
        library("a_released_job_outlives_its_keeper"),
    ),
    Fault(
        "the warden is not told of a release",
        "crates/killcord/src/warden/serve.rs",
        "                    events.push_back(Event::Released(job));\n",
        "                    let _ = job;\n",
        library("a_released_job_outlives_its_keeper"),
        # Either protection would do here: it reads the record as well.
        also=[("crates/killcord/src/warden/serve.rs", "let_go.then_some", "(let_go && false).then_some")],
    ),
    Fault(
        "the warden hears of a release before the death signal is off",
        KEEPER_END,
        "        process::set_parent_death_signal(0)?;\n        self.write_down_release();\n",
        "        self.write_down_release();\n",
        cli("crash_points", "what_is_let_go_outlives_an_owner_and_a_warden_that_are_killed_meanwhile"),
        also=[
            (
                KEEPER_END,
                "        self.owner = None;\n        self.alive = None;\n",
                "        process::set_parent_death_signal(0)?;\n        self.owner = None;\n        self.alive = None;\n",
            )
        ],
    ),
    Fault(
        "an owner's death overtakes the start that it was heard with",
        START,
        "events.push_front(Event::Cloned);",
        "events.push_back(Event::Cloned);",
        cli("crash_points", "a_job_whose_owner_dies_with_its_word_to_go_does_not_run_on"),
    ),
    Fault(
        "orphans that may be of a released job are left to nobody",
        "crates/killcord/src/warden/serve/lost.rs",
        "            Orphans::OfAnybody => _ = self.find_by_mark(job, true),",
        "            Orphans::OfAnybody => {}",
        library("a_caretaker_that_was_killed_leaves_the_second_line_as_it_was"),
    ),
    Fault(
        "the spare does not end with the last request",
        "crates/killcord/src/warden/serve.rs",
        "                    spare.end();",
        "                    let _ = spare;",
        library("it_ends_with_the_last_request"),
    ),
    Fault(
        "a spare that has a job dies with its warden",
        "crates/killcord/src/keeper/spare.rs",
        "                process::set_parent_death_signal(0)?;\n",
        "",
        library("jobs_of_a_dead_warden_are_ended_and_say_so"),
    ),
    Fault(
        "the owner does not end what both its guards have left",
        "crates/killcord/src/recover.rs",
        "match marked::find(job.id, record, true) {",
        "match marked::find(job.id, record, false) {",
        library("warden_and_keeper_killed_leave_nothing_that_has_the_jobs_name"),
        # It has the cgroup's `cgroup.kill` and the leader's pidfd beside that.
        also=[(
            "crates/killcord/src/link.rs",
            "self.kill.as_ref().map_or(Ok(()), |fd| cgroup::kill_through(fd.as_fd()))",
            "self.kill.as_ref().filter(|_| false).map_or(Ok(()), |fd| cgroup::kill_through(fd.as_fd()))",
        )],
    ),
    Fault(
        "the parent's end is nothing to killcord run",
        "crates/killcord/src/session/watch.rs",
        "(self.parent.as_ref().map(AsFd::as_fd), Interest::Read),",
        "(self.parent.as_ref().map(AsFd::as_fd).filter(|_| self.asked.is_some()), Interest::Read),",
        cli("escape", "nobody_outlives_the_killed_parent_of_killcord_run"),
    ),
    Fault(
        "a job inherits the guards' blocked signals",
        CHILD,
        "let none = 0u64;",
        "let none = u64::MAX;",
        cli("streams", "signals_are_as_a_program_expects_them"),
    ),
    Fault(
        "a job is in its guards' session",
        CHILD,
        "Session::Own | Session::OwnTerminal => plain(libc::SYS_setsid, [0; 4])?,",
        "Session::Own | Session::OwnTerminal => 0,",
        cli("streams", "a_job_without_a_terminal_leads_a_session_of_its_own"),
    ),
    Fault(
        "a job holds the lease of its owner",
        "crates/killcord-sys/src/linux/descriptors.rs",
        "    fd.as_fd().as_raw_fd()\n}",
        "    let _ = rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty());\n    fd.as_fd().as_raw_fd()\n}",
        cli("sweep", "a_job_neither_holds_the_lease_nor_frees_it"),
        also=[(
            CHILD,
            "        let _ = plain(libc::SYS_close_range, [3, all, libc::CLOSE_RANGE_CLOEXEC as usize, 0]);",
            "        let _ = all;",
        )],
    ),
    Fault(
        "a number is enough for an owner",
        SWEEP_RS,
        "Some(start == process.start && !dead),",
        "Some(!dead && (start > 0 || process.start > 0)),",
        model("an_owner_is_dead_only_by_proof"),
        cli("sweep", "a_claim_goes_when_its_owner_is_dead_and_no_sooner"),
    ),
    Fault(
        "a name that is not found proves that all is gone",
        SWEEP_RS,
        "Boundary::Tree | Boundary::Group | Boundary::Uncontained => false,",
        "Boundary::Tree | Boundary::Group | Boundary::Uncontained => traces.found == 0,",
        model("a_job_is_over_only_where_nothing_of_it_can_hide"),
        cli("sweep", "without_a_tag_it_is_not_known_whether_all_is_gone"),
    ),
]
