//! Where the model's words meet the platform's numbers.

use killcord_model::id::JobId;
use killcord_model::ladder::Signal;
use killcord_model::record::Place;
use killcord_model::time::Time;
use killcord_model::wire::Stage;
use killcord_sys::leader::Stages;
use killcord_sys::{clock, place as sys_place, random, signals};
use std::io;

/// The platform's number of a signal.
pub(crate) fn of_signal(signal: Signal) -> i32 {
    match signal {
        Signal::Hup => signals::SIGHUP,
        Signal::Int => signals::SIGINT,
        Signal::Quit => signals::SIGQUIT,
        Signal::Kill => signals::SIGKILL,
        Signal::Usr1 => signals::SIGUSR1,
        Signal::Usr2 => signals::SIGUSR2,
        Signal::Term => signals::SIGTERM,
        Signal::Cont => signals::SIGCONT,
        Signal::Winch => signals::SIGWINCH,
    }
}

/// A name for a new job.
///
/// # Errors
/// Where the kernel gives no random bytes (`getrandom(2)`).
pub(crate) fn new_job() -> io::Result<JobId> {
    let mut bytes = [0; 16];
    random::fill(&mut bytes)?;
    Ok(JobId::from_random(bytes))
}

/// The clock, in the model's form.
pub(crate) fn now() -> Time {
    Time(clock::now())
}

/// How the child of a start names its steps.
pub(crate) const STAGES: Stages = Stages {
    leader: Stage::Leader as u8,
    cgroup: Stage::Cgroup as u8,
    session: Stage::Session as u8,
    terminal: Stage::Terminal as u8,
    descriptors: Stage::Descriptors as u8,
    directory: Stage::Directory as u8,
    rlimits: Stage::ResourceLimits as u8,
    nice: Stage::Nice as u8,
    signals: Stage::Signals as u8,
    exec: Stage::Exec as u8,
};

/// Where this process's number means what it does. What cannot be read is empty, and proves nothing to whoever
/// compares it.
pub(crate) fn place() -> Place {
    Place {
        boot: sys_place::boot_id().unwrap_or_default(),
        pid_namespace: sys_place::pid_namespace().unwrap_or_default(),
        time_namespace: sys_place::time_namespace().unwrap_or_default(),
    }
}
