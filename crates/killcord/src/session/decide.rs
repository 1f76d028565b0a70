//! What a signal to `killcord run` means.

use killcord_model::ladder::Signal;
use killcord_sys::signals::{self, Arrived};

/// The signals that are passed on or acted upon.
pub(super) const TAKEN: [(i32, Option<Signal>); 9] = [
    (signals::SIGINT, Some(Signal::Int)),
    (signals::SIGTERM, Some(Signal::Term)),
    (signals::SIGHUP, Some(Signal::Hup)),
    (signals::SIGQUIT, Some(Signal::Quit)),
    (signals::SIGUSR1, Some(Signal::Usr1)),
    (signals::SIGUSR2, Some(Signal::Usr2)),
    (signals::SIGWINCH, Some(Signal::Winch)),
    (signals::SIGCONT, None),
    (signals::SIGCHLD, None),
];

/// The terminal's signals to stop. On a terminal we take them as well, and stop when the program has: a
/// shell that saw us stopped would take the terminal from a program that is still tidying it up.
pub(super) const STOPPING: [i32; 3] = [signals::SIGTSTP, signals::SIGTTIN, signals::SIGTTOU];

/// What to do about a signal that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    /// Give the leader this signal.
    Pass(Signal),
    /// End the job, beginning with this signal.
    End(Signal),
    /// End it at once.
    EndNow,
    /// The owner is gone, with the terminal or from a session.
    HungUp,
    /// Stop, as anybody would.
    Stop,
    /// We were stopped and go on.
    Continued,
    /// A child has ended.
    Child,
}

/// Decides about a signal. In a terminal the job shares our process group, so that the terminal's own
/// signals have reached it already. `hung_up` is whether a HUP says that the owner is gone.
pub(super) fn action(arrived: Arrived, shared: bool, ending: bool, hung_up: bool) -> Action {
    let known = TAKEN.iter().find(|(number, _)| *number == arrived.signal);
    match known {
        None if STOPPING.contains(&arrived.signal) && !arrived.by_kernel => Action::Stop,
        Some((signals::SIGCHLD, _)) => Action::Child,
        Some((signals::SIGCONT, _)) => Action::Continued,
        Some((_, Some(Signal::Hup))) if hung_up => Action::HungUp,
        Some((_, Some(_))) if shared && arrived.by_kernel => Action::Nothing,
        Some((_, Some(Signal::Int | Signal::Term))) if ending => Action::EndNow,
        Some((_, Some(signal @ (Signal::Int | Signal::Term)))) => Action::End(*signal),
        Some((_, Some(signal))) => Action::Pass(*signal),
        Some((_, None)) | None => Action::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrived(signal: i32, by_kernel: bool) -> Arrived {
        Arrived { signal, by_kernel, sender: 0 }
    }

    #[test]
    fn a_terminals_own_signals_are_not_passed_twice() {
        for signal in [signals::SIGINT, signals::SIGQUIT, signals::SIGWINCH] {
            assert_eq!(action(arrived(signal, true), true, false, false), Action::Nothing);
        }
        assert_eq!(action(arrived(signals::SIGINT, true), false, false, false), Action::End(Signal::Int));
        assert_eq!(
            action(arrived(signals::SIGWINCH, true), false, false, false),
            Action::Pass(Signal::Winch)
        );
    }

    #[test]
    fn a_second_int_or_term_shortens_the_ladder() {
        for signal in [signals::SIGINT, signals::SIGTERM] {
            assert_eq!(action(arrived(signal, false), true, true, false), Action::EndNow);
        }
        assert_eq!(action(arrived(signals::SIGHUP, false), true, true, false), Action::Pass(Signal::Hup));
    }

    #[test]
    fn a_hang_up_is_an_end_only_when_the_terminal_is_gone() {
        assert_eq!(action(arrived(signals::SIGHUP, false), false, false, false), Action::Pass(Signal::Hup));
        assert_eq!(action(arrived(signals::SIGHUP, true), true, false, true), Action::HungUp);
        assert_eq!(action(arrived(signals::SIGHUP, false), true, false, true), Action::HungUp);
    }
}
