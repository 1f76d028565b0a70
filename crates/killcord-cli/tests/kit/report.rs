//! The report that `killcord run --report report.json` left in a scene.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use killcord_testkit::Scene;
use serde_json::Value;

/// Reads it; it is one line with one object.
pub(crate) fn read(scene: &Scene) -> Value {
    let text = std::fs::read_to_string(scene.path("report.json")).unwrap();
    assert!(text.ends_with('\n') && text.lines().count() == 1, "{text:?}");
    serde_json::from_str(&text).unwrap()
}
