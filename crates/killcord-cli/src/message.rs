//! killcord's own messages: one line on stderr each, and only when there is something to say.

use std::io::Write;

/// Prints one line. What is said may come from outside: whatever would move a terminal's cursor is
/// replaced.
pub(crate) fn say(text: &str) {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    // A closed stderr is no reason to fail: there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "killcord: {clean}");
}
