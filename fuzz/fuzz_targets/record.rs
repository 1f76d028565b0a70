#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| killcord_fuzzed::record(data));
