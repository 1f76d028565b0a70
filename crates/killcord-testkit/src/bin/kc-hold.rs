//! `kc-hold HOW PATH`: uses a file or directory until its stdin ends, in one way and no other.
//!
//! `open` has it open; `map` has the file mapped and closed again; `cwd` has the directory as its working directory;
//! `root` as its root; `socket` has a socket bound there; `thread` has it open in a process whose first thread has
//! ended; `remember` only knows the path. Prints `ok` when it does.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use killcord_sys::fixture;
use killcord_testkit::life;

fn main() -> io::Result<()> {
    life::arm();
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let [how, path] = args.as_slice() else { return Err(life::usage("kc-hold HOW PATH")) };
    let path = PathBuf::from(path);
    // Not where the test is.
    std::env::set_current_dir("/")?;
    let _held: Box<dyn std::any::Any> = match how.to_str() {
        Some("open") => Box::new(File::open(path)?),
        Some("map") => Box::new(fixture::map(&File::open(path)?)?),
        Some("cwd") => Box::new(std::env::set_current_dir(path)?),
        Some("root") => Box::new(std::os::unix::fs::chroot(path)?),
        Some("socket") => Box::new(UnixListener::bind(path)?),
        Some("remember") => Box::new(path),
        Some("thread") => {
            std::thread::spawn(move || {
                let held = File::open(path);
                // Whatever went wrong, the process ends here: nobody else is left to end it.
                fixture::exit_now(i32::from(held.and_then(|_held| until_told()).is_err()));
            });
            fixture::end_this_thread();
        }
        _ => return Err(life::usage("HOW is open, map, cwd, root, socket, thread or remember")),
    };
    until_told()
}

fn until_told() -> io::Result<()> {
    life::say("ok")?;
    io::stdin().read_to_end(&mut Vec::new()).map(|_| ())
}
