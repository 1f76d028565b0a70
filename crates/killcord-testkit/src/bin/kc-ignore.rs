//! `kc-ignore SECONDS`: ignores TERM, INT and HUP, writes itself down in `$D/ids` as `ignore`, prints `ready`,
//! and waits. Only KILL ends it early.

use std::io;
use std::path::PathBuf;

use killcord_sys::fixture::ignore_signal;
use killcord_testkit::{Signal, life, record};

fn main() -> io::Result<()> {
    life::arm();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        ignore_signal(signal.as_raw())?;
    }
    let seconds = std::env::args().nth(1).ok_or_else(|| life::usage("kc-ignore SECONDS"))?;
    let seconds = life::seconds(&seconds)?;
    let dir = std::env::var_os("D").ok_or_else(|| life::usage("kc-ignore needs the variable D"))?;
    record(&PathBuf::from(dir).join("ids"), "ignore")?;
    life::say("ready")?;
    std::thread::sleep(seconds);
    Ok(())
}
