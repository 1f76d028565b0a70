//! A stack for a child that shares our memory.

use std::io;
use std::ptr;

/// A stack that is unmapped when it is no longer needed. Guard pages would cost more than they find under a few
/// functions that make system calls.
#[derive(Debug)]
pub(super) struct Stack(*mut libc::c_void);

impl Stack {
    /// Enough for functions that make system calls.
    pub(super) const SIZE: usize = 64 * 1024;

    pub(super) fn new() -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping that touches nothing that exists.
        let start = unsafe { libc::mmap(ptr::null_mut(), Self::SIZE, access, flags, -1, 0) };
        if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Self(start)) }
    }

    /// Its lowest address, as `clone3(2)` wants it.
    pub(super) fn bottom(&self) -> *mut libc::c_void {
        self.0
    }

    /// Where it begins, as `clone(2)` wants it: stacks grow downwards on every architecture that is supported
    /// here.
    pub(super) fn top(&self) -> *mut libc::c_void {
        self.0.wrapping_byte_add(Self::SIZE)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and whoever ran on it has executed or exited.
        unsafe { libc::munmap(self.0, Self::SIZE) };
    }
}
