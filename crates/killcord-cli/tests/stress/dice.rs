//! Random numbers, the same for the same seed and round.

use std::time::Duration;

/// A xorshift generator.
pub(crate) struct Dice(u64);

impl Dice {
    /// The dice of one round.
    pub(crate) fn new(seed: u64, round: u32) -> Self {
        let mut dice = Self((seed ^ u64::from(round).wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1);
        for _ in 0..8 {
            dice.below(1);
        }
        dice
    }

    /// One of the first n numbers.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }

    /// True once in n times.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of these.
    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    /// Less than so many milliseconds.
    pub(crate) fn ms(&mut self, n: u64) -> Duration {
        Duration::from_micros(self.below(n * 1000))
    }

    /// A part of these that is not empty.
    pub(crate) fn some<T: Copy>(&mut self, of: &[T]) -> Vec<T> {
        let bits = 1 + self.below((1 << of.len()) - 1);
        of.iter().enumerate().filter(|(n, _)| bits >> n & 1 == 1).map(|(_, one)| *one).collect()
    }
}
