//! A child that lives in our memory until it executes a program, without our waiting for it.
//!
//! A copy of a process costs its page tables, a fault for every page that either side writes, and their
//! removal at exec. `CLONE_VM` spares all of it. `CLONE_VFORK` beside it would have us sleep until exec, which
//! a hung file system never ends; so the child has a stack of its own, and what it reads stays untouched until
//! the kernel says that it has left: `CLONE_CHILD_CLEARTID` clears a word in the shared memory at the very
//! point where exec or the child's end lets go of it (`mm_release` in the kernel's `fork.c`).
//!
//! What else such a child may not do, since it would do it to its parent: write `errno` or anything else that
//! belongs to a thread (the C library's wrappers do, hence [`call`]), change what the kernel keeps with the
//! memory (`PR_SET_DUMPABLE`, `oom_score_adj`), handle a signal, or panic.

use super::clone::{CLONE_INTO_CGROUP, CloneArgs};
use super::signals::Set;
use super::stack::Stack;
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicI32, Ordering};

/// A system call that touches nothing but the kernel's memory and its arguments': the answer, or an error
/// number.
///
/// # Safety
/// The arguments are what the call wants.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn call(number: libc::c_long, [a, b, c, d]: [usize; 4]) -> Result<usize, i32> {
    let answer: isize;
    // SAFETY: the kernel keeps every register but rax, rcx and r11, and uses no stack of ours.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => answer,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    };
    if answer < 0 { Err(-answer as i32) } else { Ok(answer as usize) }
}

/// The same.
///
/// # Safety
/// The arguments are what the call wants.
#[cfg(target_arch = "aarch64")]
pub(super) unsafe fn call(number: libc::c_long, [a, b, c, d]: [usize; 4]) -> Result<usize, i32> {
    let answer: isize;
    // SAFETY: the kernel keeps every register but x0, and uses no stack of ours.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a as isize => answer,
            in("x1") b, in("x2") c, in("x3") d,
            options(nostack),
        );
    };
    if answer < 0 { Err(-answer as i32) } else { Ok(answer as usize) }
}

/// The same by way of the C library, where nobody shares our memory: [`clone_into`] refuses.
///
/// # Safety
/// The arguments are what the call wants.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) unsafe fn call(number: libc::c_long, [a, b, c, d]: [usize; 4]) -> Result<usize, i32> {
    // SAFETY: the caller's word.
    let answer = unsafe { libc::syscall(number, a, b, c, d) };
    if answer < 0 {
        Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    } else {
        Ok(answer as usize)
    }
}

const SHARED: i32 = libc::CLONE_VM | libc::CLONE_CHILD_CLEARTID;

/// What the child runs. It ends by exec or by `exit_group(2)`.
pub(super) type Entry = extern "C" fn(*mut c_void) -> i32;

/// `clone3` onto the stack that is in `args`: the child calls `entry` there and never comes back here. The C
/// library has the call for itself and offers no way to it.
///
/// # Safety
/// The stack is the child's alone, and what `entry` reads stays as it is until the child has left.
#[cfg(target_arch = "x86_64")]
unsafe fn clone3_onto(args: &CloneArgs, entry: Entry, given: *mut c_void) -> Result<usize, i32> {
    let answer: isize;
    // SAFETY: in the parent this is a system call as above. The child has the same registers and the new
    // stack, whose top is aligned as a call wants it; rbp is cleared to end a backtrace.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone3 as isize => answer,
            in("rdi") ptr::from_ref(args), in("rsi") size_of::<CloneArgs>(),
            in("r12") given, in("r13") entry,
            lateout("rcx") _, lateout("r11") _,
        );
    };
    if answer < 0 { Err(-answer as i32) } else { Ok(answer as usize) }
}

/// The same.
///
/// # Safety
/// The same.
#[cfg(target_arch = "aarch64")]
unsafe fn clone3_onto(args: &CloneArgs, entry: Entry, given: *mut c_void) -> Result<usize, i32> {
    let answer: isize;
    // SAFETY: as above; x29 is the frame pointer.
    unsafe {
        std::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x20",
            "blr x21",
            "brk 1",
            "2:",
            in("x8") libc::SYS_clone3,
            inlateout("x0") ptr::from_ref(args) as isize => answer,
            in("x1") size_of::<CloneArgs>(),
            in("x20") given, in("x21") entry,
        );
    };
    if answer < 0 { Err(-answer as i32) } else { Ok(answer as usize) }
}

/// What a child was lent: the stack it runs on and what it reads there.
///
/// Dropping it takes both back if the child has left, and gives them up for good if it has not.
#[derive(Debug)]
pub(super) struct Lent<T>(NonNull<Inner<T>>);

#[derive(Debug)]
struct Inner<T> {
    what: T,
    stack: Stack,
    /// Cleared by the kernel when the child has left.
    in_use: AtomicI32,
}

impl<T> Lent<T> {
    pub(super) fn new(what: T) -> io::Result<Self> {
        let inner = Inner { what, stack: Stack::new()?, in_use: AtomicI32::new(0) };
        Ok(Self(NonNull::from(Box::leak(Box::new(inner)))))
    }

    /// What was lent, for the child.
    pub(super) fn what(&self) -> *mut T {
        // SAFETY: the place is allocated from `new` to `drop`; no reference to it is made.
        unsafe { &raw mut (*self.0.as_ptr()).what }
    }

    /// The stack and the word, which the child does not touch as Rust data.
    fn stack(&self) -> &Stack {
        // SAFETY: as above; nobody writes it.
        unsafe { &(*self.0.as_ptr()).stack }
    }

    fn in_use(&self) -> &AtomicI32 {
        // SAFETY: as above; it is written as an atomic, by us and by the kernel.
        unsafe { &(*self.0.as_ptr()).in_use }
    }

    /// Whether the child has executed its program or has ended.
    pub(super) fn has_left(&self) -> bool {
        self.in_use().load(Ordering::Acquire) == 0
    }

    /// Makes a child in our memory, in a cgroup if one is given, that runs `entry` with [`Self::what`]: its
    /// number, and its pidfd where the kernel has them.
    ///
    /// # Errors
    /// Whatever clone says; `ENOSYS` where it is not known how to enter such a child, and under valgrind, which would
    /// take the call for its own fault and end us.
    pub(super) fn to_child(
        &self,
        entry: Entry,
        cgroup: Option<BorrowedFd<'_>>,
    ) -> io::Result<(i32, Option<OwnedFd>)> {
        if super::valgrind::runs_us() {
            return Err(io::Error::from_raw_os_error(libc::ENOSYS));
        }
        // No handler may run in a process that has our memory; the child's own mask is its own business.
        let before = Set::all().block_and_remember()?;
        self.in_use().store(1, Ordering::Release);
        let made = match cgroup {
            Some(cgroup) => self.by_clone3(entry, cgroup),
            None => self.by_clone(entry, true).or_else(|_| self.by_clone(entry, false)),
        };
        if made.is_err() {
            self.in_use().store(0, Ordering::Release);
        }
        let restored = before.block_exactly();
        let (pid, fd) = made?;
        // A child that was made is told, whatever else failed: nobody would end it otherwise, and who is told of an
        // error would make another one. Signals stay blocked then, as a keeper has them anyway.
        drop(restored);
        // SAFETY: the kernel made this descriptor for this call and nobody else has it.
        let pidfd = (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) });
        Ok((pid, pidfd))
    }

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn by_clone3(&self, entry: Entry, cgroup: BorrowedFd<'_>) -> io::Result<(i32, RawFd)> {
        let mut pidfd: RawFd = -1;
        let args = CloneArgs {
            flags: (SHARED | libc::CLONE_PIDFD) as u64 | CLONE_INTO_CGROUP,
            pidfd: &raw mut pidfd as u64,
            child_tid: self.in_use().as_ptr() as u64,
            exit_signal: libc::SIGCHLD as u64,
            stack: self.stack().bottom() as u64,
            stack_size: Stack::SIZE as u64,
            cgroup: cgroup.as_raw_fd() as u64,
            ..CloneArgs::default()
        };
        // SAFETY: the stack is new, and what was lent stays until the child has left it.
        let pid = unsafe { clone3_onto(&args, entry, self.what().cast()) };
        pid.map(|pid| (pid as i32, pidfd)).map_err(io::Error::from_raw_os_error)
    }

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn by_clone(&self, entry: Entry, with_pidfd: bool) -> io::Result<(i32, RawFd)> {
        let mut pidfd: RawFd = -1;
        let flags = SHARED | libc::SIGCHLD | if with_pidfd { libc::CLONE_PIDFD } else { 0 };
        let (top, given, word) = (self.stack().top(), self.what().cast(), self.in_use().as_ptr());
        let (fd, none) = (&raw mut pidfd, ptr::null_mut::<c_void>());
        // SAFETY: as above. The last three are the places for the pidfd, for thread-local storage and of the
        // word to be cleared.
        let pid = unsafe { libc::clone(entry, top, flags, given, fd, none, word) };
        if pid < 0 { Err(io::Error::last_os_error()) } else { Ok((pid, pidfd)) }
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn by_clone3(&self, _: Entry, _: BorrowedFd<'_>) -> io::Result<(i32, RawFd)> {
        Err(io::Error::from_raw_os_error(libc::ENOSYS))
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn by_clone(&self, _: Entry, _: bool) -> io::Result<(i32, RawFd)> {
        Err(io::Error::from_raw_os_error(libc::ENOSYS))
    }
}

impl<T> Drop for Lent<T> {
    fn drop(&mut self) {
        if self.has_left() {
            // SAFETY: it was leaked in `new`, and nobody else has it any more.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}
