//! What a command finds in its environment: an allow-list, since clients hand over all their secrets.

use crate::config::Pass;
use std::collections::BTreeMap;
use std::ffi::OsString;

/// The variables that are passed on.
const PASSED: [&str; 14] = [
    "HOME",
    "PATH",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "HOSTNAME",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
];

/// What begins with this is passed on, too.
const PASSED_PREFIXES: [&str; 1] = ["LC_"];

/// For a command without a terminal: nothing asks, nothing pages, nothing paints.
const WITHOUT_TERMINAL: [(&str, &str); 10] = [
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("SSH_ASKPASS_REQUIRE", "never"),
    ("PIP_NO_INPUT", "1"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("SYSTEMD_PAGER", ""),
];

const ON_TERMINAL: [(&str, &str); 1] = [("TERM", "xterm-256color")];

/// Whether a variable of ours is passed on.
fn passes(name: &str, also: &[Pass]) -> bool {
    PASSED.contains(&name)
        || PASSED_PREFIXES.iter().any(|p| name.starts_with(p))
        || also.iter().any(|pass| pass.covers(name))
}

/// The environment of a command. What it is given explicitly comes last.
pub(crate) fn of_command(
    terminal: bool,
    also: &[Pass],
    configured: &BTreeMap<String, String>,
    given: &BTreeMap<String, String>,
) -> Vec<(OsString, OsString)> {
    let inherited = std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(|n| passes(n, also)));
    let mut all: BTreeMap<OsString, OsString> = inherited.collect();
    let fixed: &[(&str, &str)] = if terminal { &ON_TERMINAL } else { &WITHOUT_TERMINAL };
    all.extend(fixed.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))));
    all.extend(configured.iter().chain(given).map(|(n, v)| (OsString::from(n), OsString::from(v))));
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_passed_on() {
        assert!(passes("PATH", &[]) && passes("LC_ALL", &[]));
        for secret in ["AWS_SECRET_ACCESS_KEY", "ANTHROPIC_API_KEY", "SSH_AUTH_SOCK", "LD_PRELOAD", "PATHX"] {
            assert!(!passes(secret, &[]), "{secret}");
        }
        let also = [Pass::Prefix("CARGO_".to_owned()), Pass::Name("CI".to_owned())];
        assert!(passes("CARGO_HOME", &also) && passes("CI", &also) && !passes("CIX", &also));
    }

    #[test]
    fn what_is_given_comes_last() {
        let given = BTreeMap::from([("PAGER".to_owned(), "less".to_owned())]);
        let all = of_command(false, &[], &BTreeMap::new(), &given);
        assert!(
            all.contains(&("PAGER".into(), "less".into())) && all.contains(&("NO_COLOR".into(), "1".into()))
        );
    }
}
