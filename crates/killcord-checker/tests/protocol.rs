//! Promised: in no state that owner, warden, keepers and kernel can come to, with the crashes and losses of a setting, is a
//! started program left alone, a released job ended, a request started twice, or `Empty` said of what lives (G1, G2, G4,
//! G13). The decisions are those that ship.
//!
//! The negative controls are faults in the protocol: each must be found.
//!
//! Not promised: that the code around the decisions does what the checker's does. That is for the tests with processes.

use killcord_checker::{Fault, setting_for, settings, walk};
use killcord_testkit::campaign;
use std::collections::BTreeSet;
use std::fmt::Write as _;

#[test]
fn heavy_no_reachable_state_breaks_a_promise() {
    let (mut states, mut depth, mut found, mut seen) = (0, 0, String::new(), BTreeSet::new());
    let full = campaign::is_full();
    let all = settings(full);
    for (name, setting) in &all {
        let walked = walk(setting);
        println!("{:<12} {name}: {} states, depth {}", setting.boundary.name(), walked.states, walked.depth);
        states += walked.states;
        depth = depth.max(walked.depth);
        seen.extend(walked.seen);
        for (property, acts) in walked.broken {
            let _ = write!(found, "\n{} {name}: not true: {property}\n{acts:#?}", setting.boundary.name());
        }
    }
    let count = found.matches("not true").count();
    campaign::report("model", &format!("{states} states in {} settings, depth {depth}", all.len()), count);
    assert!(found.is_empty(), "{found}");
    // What never comes about proves nothing by being absent.
    assert_eq!(seen.len(), 4, "{seen:?}");
}

#[test]
fn every_fault_in_the_protocol_is_found() {
    for fault in Fault::ALL {
        let walked = walk(&setting_for(fault));
        let Some((property, acts)) = walked.broken.first() else {
            panic!("{fault:?} is not found in {} states", walked.states)
        };
        println!("{fault:?}: not true: {property}; {} acts, {} states", acts.len(), walked.states);
    }
}
