//! A program that links the library: this executable in a role. It starts jobs from three threads and ends them in every
//! way that there is, beside children of its own.
//!
//! When nobody is killed (`calm`) every end must be what was ordered, and each child of its own must have its status (G12).
//! When guards are killed under it, errors are what it may get; what must hold then is seen from outside.

use crate::den::{Den, Io};
use crate::dice::Dice;
use crate::events::{Bound, DEATH, Event, VICTIMS, Victim};
use crate::payload::{HELD, Payload};
use crate::round::{Excuse, Round};
use killcord::{
    Boundary, Cause, Choice, Command, End, ExitStatus, Job, Ladder, Leftovers, Owner, Stdio, Verdict,
};
use killcord_testkit::{is_root, life};
use std::io::Read;
use std::time::{Duration, Instant};

/// The environment variable that makes this executable a host.
const ROLE: &str = "KILLCORD_STRESS_HOST";
const THREADS: u32 = 3;
const JOBS: u32 = 4;
/// For what must come, and does on a busy machine.
const SOON: Duration = Duration::from_secs(20);

impl Round<'_> {
    pub(crate) fn library(&mut self) {
        let calm = self.dice.one_in(3);
        let victims = if calm { Vec::new() } else { self.dice.some(&VICTIMS) };
        let takes_all = victims.len() == VICTIMS.len();
        let untagged = !self.campaign.tagged && !["cgroup", "namespace"].contains(&self.boundary);
        let (victims, takes_all) =
            if takes_all && untagged { (vec![Victim::Owner], false) } else { (victims, takes_all) };
        self.what = format!("calm {calm}, {victims:?}");
        self.campaign.tally.event(&if calm {
            Event::Itself.name()
        } else {
            Event::Kill(victims.clone()).name()
        });
        let mut command = self.program(std::env::current_exe().unwrap());
        command.env(ROLE, if calm { "calm" } else { "hit" });
        command.args([self.boundary, &self.campaign.seed.to_string(), &self.number.to_string()]);
        let mut den = Den::start(&self.corner, &command, Io::Pipes);
        let owner = den.program.take();
        let mut bound = Bound::now(DEATH);
        if let Some(owner) = &owner {
            if !calm {
                den.output.wait_word("started", SOON);
                std::thread::sleep(self.dice.ms(1500));
                self.kill_of_library(&victims, owner, &den);
                bound = Bound::now(DEATH);
            }
            if !victims.contains(&Victim::Owner) {
                self.wait_or_kill(owner, Duration::from_secs(40));
                bound = Bound::now(DEATH);
            }
        }
        let said = den.output.text();
        self.campaign.tally.started(&self.kind, said.matches("started").count() as u32);
        // A handle that was dropped hears nothing: where both guards of its job are killed in the ladder, nobody is left
        // who could end it before the next sweep behind the owner's end. A guard of what was released would be in its way.
        let unheard = [Victim::Warden, Victim::Keeper].iter().all(|guard| victims.contains(guard));
        if takes_all || unheard {
            self.end_released();
            if self.settle_by_sweeps(&den) {
                self.look_behind(&mut den, None);
            }
            return;
        }
        if calm {
            self.releases_live(&den);
        }
        let gone = self.settle(&den, bound, Excuse::Released);
        if gone {
            self.look_behind(&mut den, calm.then_some(0));
        }
    }

    /// What the host said before its end may still be on its way through the pipe.
    fn releases_live(&self, den: &Den) {
        let until = Instant::now() + SOON;
        loop {
            let live = self.scene.alive().iter().filter(|alive| alive.name == "released").count();
            let said = den.output.text().matches("released").count();
            if live == said {
                return self.campaign.tally.note("released, seen to live, ended here", live as u32);
            }
            if Instant::now() >= until {
                return self
                    .fault(&format!("{said} were released, and {live} of them live: {:?}", den.left()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A sweep leaves them alone, and they would be taken for survivors.
    fn end_released(&self) {
        let pinned = self.scene.pin();
        for name in pinned.names() {
            if name == "released" {
                // The first of that name each time; there is one in a round of this kind, or none.
                pinned.get(name).map(|process| process.kill(killcord_testkit::Signal::KILL));
            }
        }
    }
}

/// Plays the host where the environment says so, and does not return then.
pub(crate) fn play() {
    let Some(role) = std::env::var_os(ROLE) else { return };
    life::arm();
    let argument = |n: usize| std::env::args().nth(n).unwrap();
    let boundary: Choice = match argument(1).as_str() {
        "auto" => Choice::Auto,
        other => Choice::Exactly(other.parse::<Boundary>().unwrap()),
    };
    let (seed, round): (u64, u32) = (argument(2).parse().unwrap(), argument(3).parse().unwrap());
    let calm = role == "calm";
    let owner = match Owner::builder().boundary(boundary).grace(Duration::from_millis(500)).build() {
        Ok(owner) => owner,
        Err(e) if calm => panic!("no owner: {e}"),
        Err(_) => std::process::exit(0),
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let owner = &owner;
            scope.spawn(move || {
                let mut dice = Dice::new(seed, round.wrapping_mul(31).wrapping_add(thread));
                for n in 0..JOBS {
                    // Each host lets one go.
                    let way = if thread == 0 && n == 1 { 9 } else { dice.below(9) };
                    let ended = one_job(owner, &mut dice, way);
                    if calm {
                        ended.unwrap_or_else(|e| panic!("way {way}: {e}"));
                    }
                }
            });
        }
        own_children();
    });
    std::process::exit(0);
}

/// Children that are the host's own (G12).
fn own_children() {
    for code in 0..20 {
        let status = std::process::Command::new("sh").args(["-c", &format!("exit {code}")]).status().unwrap();
        assert_eq!(status.code(), Some(code), "the status of the host's own child");
    }
}

fn job(owner: &Owner, script: &str) -> Command {
    let mut command = owner.command("sh");
    command.args(["-c", script]);
    command
}

fn started(command: &mut Command) -> Result<Job, String> {
    let job = command.spawn().map_err(|e| e.to_string())?;
    life::say("started").map_err(|e| e.to_string())?;
    Ok(job)
}

fn one_job(owner: &Owner, dice: &mut Dice, way: u64) -> Result<(), String> {
    let pause = |dice: &mut Dice| std::thread::sleep(dice.ms(150));
    let code = dice.below(100) as u8;
    match way {
        0 => {
            let mut job = started(&mut job(owner, &format!("exit {code}")))?;
            expect(&mut job, Cause::LeaderExited, |end| end.status == Some(ExitStatus::Code(i32::from(code))))
        }
        1 => {
            let dropped =
                started(&mut job(owner, &Payload::that_stays(dice, "library", !is_root()).script()))?;
            pause(dice);
            drop(dropped);
            Ok(())
        }
        2 => {
            let mut job = started(&mut job(owner, &Payload::Deaf.script()))?;
            pause(dice);
            job.end(Ladder::with_grace(Duration::from_millis(300))).map_err(|e| e.to_string())?;
            expect(&mut job, Cause::Asked, |_| true)
        }
        3 => {
            let mut job = started(&mut job(owner, &Payload::Escape.script()))?;
            pause(dice);
            job.end_now().map_err(|e| e.to_string())?;
            expect(&mut job, Cause::Asked, |_| true)
        }
        4 => flood(owner),
        5 => {
            let mut job = started(&mut job(owner, &Payload::Holder.script()))?;
            expect(&mut job, Cause::LeaderExited, |end| end.status == Some(ExitStatus::Code(HELD)))
        }
        6 => {
            let mut job = started(job(owner, &Payload::Holder.script()).leftovers(Leftovers::Keep))?;
            let end = job.wait_timeout(SOON).map_err(|e| e.to_string())?.ok_or("no end")?;
            if end.goes_on() { Ok(()) } else { Err(format!("they were kept and are over: {end:?}")) }
        }
        7 => terminal(owner, dice),
        8 => match owner.command("/no/such/program").spawn() {
            Err(e) if e.nothing_ran() => Ok(()),
            other => Err(format!("{other:?}")),
        },
        _ => {
            let job = started(&mut job(owner, "echo $$ >\"$D/let-go\"; exec \"$L\" released 45"))?;
            until_recorded(&job)?;
            job.release().map_err(|e| e.to_string())?;
            life::say("released").map_err(|e| e.to_string())
        }
    }
}

/// Waits until the one that is let go has written itself down, so that whoever looks can tell it from the others.
fn until_recorded(job: &Job) -> Result<(), String> {
    let ids = std::path::PathBuf::from(std::env::var_os("D").ok_or("no scene")?).join("ids");
    let until = life::now_ms() + SOON.as_millis() as u64;
    while !std::fs::read_to_string(&ids).is_ok_and(|text| text.contains("released")) {
        if life::now_ms() > until || job.exited().is_some() {
            return Err("it does not come up".to_owned());
        }
        life::sleep_until(life::now_ms() + 2);
    }
    Ok(())
}

fn expect(job: &mut Job, cause: Cause, and: impl Fn(&End) -> bool) -> Result<(), String> {
    let end = job.wait_timeout(SOON).map_err(|e| e.to_string())?.ok_or("no end in time")?;
    let empty = matches!(end.verdict, Verdict::Empty(_)) || end.boundary == Boundary::Group;
    if end.cause == cause && empty && and(&end) { Ok(()) } else { Err(format!("{end:?}")) }
}

fn flood(owner: &Owner) -> Result<(), String> {
    let mut command = job(owner, &Payload::Flood.script());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).timeout(Duration::from_millis(300));
    let output = started(&mut command)?.into_output(4096).map_err(|e| e.to_string())?;
    let kept = output.stdout.head.len() + output.stdout.tail.len();
    if output.end.cause == Cause::Timeout && kept <= 4096 { Ok(()) } else { Err(format!("{:?}", output.end)) }
}

fn terminal(owner: &Owner, dice: &mut Dice) -> Result<(), String> {
    let mut job = started(job(owner, &Payload::Tree.script()).on_terminal(80, 24))?;
    let mut terminal = job.terminal.take().ok_or("no terminal")?;
    if dice.one_in(2) {
        let mut first = [0];
        terminal.read_exact(&mut first).map_err(|e| e.to_string())?;
    }
    // Hung up first, or with the job.
    if dice.one_in(2) {
        drop(terminal);
    }
    drop(job);
    Ok(())
}
