//! Standing still until a test says so.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Connects to the Unix socket, says this word, and returns when the connection ends or the time is over. Whoever
/// listens knows from the socket who that is, also in another pid namespace (`SO_PEERCRED`, `unix(7)`).
///
/// # Errors
/// `ECONNREFUSED` or `ENOENT` when nobody listens.
pub fn pause(socket: &Path, word: &str, within: Duration) -> io::Result<()> {
    let until = Instant::now() + within;
    // No exec and no fork come before it is closed again, and an exec would close it.
    let mut stream = UnixStream::connect(socket)?;
    stream.write_all(word.as_bytes())?;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut [0]) {
            // A stop and a continue interrupt it, without any handler (`signal(7)`).
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            ended => return ended.map(|_| ()),
        }
    }
}
