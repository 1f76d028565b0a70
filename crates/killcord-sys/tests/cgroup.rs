//! What a leaf says of itself.

use killcord_sys::cgroup::{Leaf, Own};
use killcord_testkit::{Host, Need, Who, is_root, skip};

/// Owner, keeper and warden each may remove it, and the others still ask.
#[test]
fn a_leaf_that_was_removed_is_empty_and_not_unknown() {
    let need = Need::Cgroup(if is_root() { Who::Root } else { Who::User });
    if !Host::get().has(need) {
        skip!(need);
    }
    let own = Own::find(None).unwrap();
    let name = format!("killcord-test-removed-{}", std::process::id());
    let leaf = Leaf::open(own.make(&name).unwrap()).unwrap();
    assert!(!leaf.populated().unwrap());
    own.remove(&name).unwrap();
    assert!(!leaf.populated().unwrap());
}
