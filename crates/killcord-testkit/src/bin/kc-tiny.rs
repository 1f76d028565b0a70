//! `kc-tiny`: ends at once. What a start costs is measured with it: a static program that does nothing.

fn main() {}
