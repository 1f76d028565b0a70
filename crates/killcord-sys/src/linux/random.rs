//! Random bytes from the kernel (`getrandom(2)`).

use std::io;

/// Fills the buffer.
pub fn fill(buffer: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        filled += rustix::io::retry_on_intr(|| rustix::rand::getrandom(&mut buffer[filled..], flags))?;
    }
    Ok(())
}
