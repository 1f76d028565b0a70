//! What the jobs do, most of it to get away. Every process of it ends by itself within 60 s.

use crate::dice::Dice;

/// A job's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payload {
    /// Ends at once with this status.
    Brief(u8),
    /// Children, one of them in a session of its own.
    Tree,
    /// A child, a session, a daemon, one without descriptors and environment, one that changes its number.
    Escape,
    /// The same, deaf to TERM, INT and HUP.
    EscapeDeaf,
    /// Three that are deaf.
    Deaf,
    /// Floods on both streams, one of them of a daemon.
    Flood,
    /// A fork bomb that wants forty processes, inside a limit: on a busy machine its own bound does not hold.
    Bomb(&'static str),
    /// Many files in its `TMPDIR`, a link out of it, and somebody who stands in it.
    Files,
    /// Exits with 3 and leaves two behind who hold its output.
    Holder,
    /// A stopped child, and stops itself.
    Stopped,
}

/// The exit status of [`Payload::Holder`].
pub(crate) const HELD: i32 = 3;

const BOMBS: [&str; 5] = ["wide", "deep", "exec", "reparent", "term"];

impl Payload {
    /// One that stays until it is ended. Few are bombs, which would be all that the machine does, and none where nothing
    /// would limit it.
    pub(crate) fn that_stays(dice: &mut Dice, boundary: &str, limited: bool) -> Self {
        // On `group` only those whose members can be told apart by name: who left it is not promised to end.
        if boundary == "group" {
            return dice.pick(&[
                Self::Tree,
                Self::Escape,
                Self::EscapeDeaf,
                Self::Deaf,
                Self::Files,
                Self::Stopped,
            ]);
        }
        match dice.below(20) {
            0..4 => Self::Tree,
            4..8 => Self::Escape,
            8..10 => Self::EscapeDeaf,
            10..13 => Self::Deaf,
            13..15 => Self::Flood,
            15 if limited => Self::Bomb(dice.pick(&BOMBS)),
            15..18 => Self::Files,
            _ => Self::Stopped,
        }
    }

    /// For `sh -c`. `$L`, `$I`, `$P` and `$B` are the fixtures `kc-leaf`, `kc-ignore`, `kc-payload` and `kc-bomb`. On
    /// `group`, whoever leaves the group is named so that it can be seen.
    pub(crate) fn script(self) -> String {
        match self {
            Self::Brief(code) => format!("exit {code}"),
            Self::Tree => {
                "\"$L\" a 45 & (setsid \"$L\" out-b 45 &); \"$L\" c 45 & echo ready; wait".to_owned()
            }
            Self::Escape => "exec \"$P\"".to_owned(),
            Self::EscapeDeaf => "exec \"$P\" --ignore-term".to_owned(),
            Self::Deaf => "\"$I\" 45 & \"$I\" 45 & exec \"$I\" 45".to_owned(),
            Self::Flood => "echo ready; (setsid timeout 45 yes daemon >&2 &); exec timeout 45 yes".to_owned(),
            Self::Bomb(kind) => {
                // Who has all privileges has `--pids` instead.
                format!("exec bash -c 'ulimit -u 400; exec \"$B\" {kind} --cap 40 --seconds 15'")
            }
            Self::Files => "mkdir \"$TMPDIR/d\" && cd \"$TMPDIR/d\" && ln -s / out && i=0
                while [ $i -lt 40 ]; do echo $i >$i; i=$((i+1)); done
                \"$L\" a 45 & echo ready; wait"
                .to_owned(),
            Self::Holder => {
                format!("\"$L\" held 45 & (setsid \"$L\" held-out 45 &); echo ready; exit {HELD}")
            }
            Self::Stopped => "\"$L\" a 45 & kill -STOP $!; echo ready; kill -STOP $$; wait".to_owned(),
        }
    }

    /// What it is called in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Brief(_) => "brief",
            Self::Tree => "tree",
            Self::Escape => "escape",
            Self::EscapeDeaf => "escape, deaf",
            Self::Deaf => "deaf",
            Self::Flood => "flood",
            Self::Bomb(_) => "bomb",
            Self::Files => "files",
            Self::Holder => "holder",
            Self::Stopped => "stopped",
        }
    }
}

/// Whether a recorded process has left its group, so that on `group` nothing is promised of it.
pub(crate) fn has_left_its_group(name: &str) -> bool {
    name.contains("out") || ["bare", "daemon", "setsid", "hopper"].contains(&name)
}
