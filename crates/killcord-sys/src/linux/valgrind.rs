//! Whether valgrind runs us, as a developer does who looks for a fault in a program that links killcord.
//!
//! It reads our instructions instead of having the processor run them, and knows no process that shares the memory of
//! another one but a thread and a `vfork`.

/// Asks whether this process runs under valgrind.
///
/// The question is a sequence of instructions that changes nothing on a processor and that valgrind takes for a
/// "client request" (`valgrind/valgrind.h`, `RUNNING_ON_VALGRIND`).
#[cfg(target_arch = "x86_64")]
pub(super) fn runs_us() -> bool {
    let question = QUESTION;
    let mut answer = 0usize;
    // SAFETY: 128 bits of rotation give rdi back as it was, and exchanging a register with itself changes nothing;
    // valgrind reads the array and writes rdx.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") question.as_ptr(),
            inout("rdx") answer,
            options(nostack),
        );
    };
    answer != 0
}

/// The same.
#[cfg(target_arch = "aarch64")]
pub(super) fn runs_us() -> bool {
    let question = QUESTION;
    let mut answer = 0usize;
    // SAFETY: as above, with x12 and x10.
    unsafe {
        std::arch::asm!(
            "ror x12, x12, #3",
            "ror x12, x12, #13",
            "ror x12, x12, #51",
            "ror x12, x12, #61",
            "orr x10, x10, x10",
            inout("x3") answer,
            in("x4") question.as_ptr(),
            options(nostack),
        );
    };
    answer != 0
}

/// Elsewhere nobody shares our memory, and nobody needs to know.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn runs_us() -> bool {
    false
}

/// The request's number (`VG_USERREQ__RUNNING_ON_VALGRIND`), and no arguments.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const QUESTION: [usize; 6] = [0x1001, 0, 0, 0, 0, 0];

#[cfg(test)]
mod tests {
    #[test]
    fn no_processor_takes_the_question_for_anything() {
        assert!(!super::runs_us());
    }
}
