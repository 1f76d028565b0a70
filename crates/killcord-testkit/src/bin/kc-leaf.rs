//! `kc-leaf NAME SECONDS`: writes itself down in `$D/ids` and waits. The simplest member of a tree.

use std::io;
use std::path::PathBuf;

use killcord_testkit::{life, record};

fn main() -> io::Result<()> {
    life::arm();
    let mut args = std::env::args().skip(1);
    let (Some(name), Some(seconds)) = (args.next(), args.next()) else {
        return Err(life::usage("kc-leaf NAME SECONDS"));
    };
    let seconds = life::seconds(&seconds)?;
    let dir = std::env::var_os("D").ok_or_else(|| life::usage("kc-leaf needs the variable D"))?;
    record(&PathBuf::from(dir).join("ids"), &name)?;
    std::thread::sleep(seconds);
    Ok(())
}
