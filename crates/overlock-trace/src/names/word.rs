//! What an unknown word is for, by the values that it had where threads waited for it.
//!
//! A lock's waiters sleep while its word says that it is taken: not zero, and the same each time.
//! Threads that wait for work sleep while there is none, which is zero, or while a count of what
//! has happened stays as it is, which is another value each time.

/// What the system call of a wait says of its word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    #[default]
    Other,
    /// It is the plain wait, which has no deadline.
    Plain,
    /// The word is that of a taken lock.
    Lock,
}

/// Operations that take a lock, whose word has its holder: `FUTEX_LOCK_PI` and `FUTEX_LOCK_PI2`.
const LOCKS: [u64; 2] = [6, 13];
/// The bit of such a word, and of a robust mutex, that says that threads wait.
const WAITERS: u64 = 1 << 31;
/// The kernel numbers fewer threads than this.
const MOST_THREADS: u64 = 1 << 22;
/// The value that a waiter of the C library's other mutexes expects: taken, with waiters.
const CONTENDED: u64 = 2;

impl Op {
    /// Returns what an operation without its flags, and the value that it expects, say.
    pub(crate) fn new(operation: u64, value: u64) -> Self {
        let is_robust = (1..MOST_THREADS).contains(&((value & u64::from(u32::MAX)) ^ WAITERS));
        match operation {
            _ if is_robust || LOCKS.contains(&operation) => Op::Lock,
            0 => Op::Plain,
            _ if value == CONTENDED => Op::Lock,
            _ => Op::Other,
        }
    }

    /// Returns whether the wait may be for a mutex of the C library.
    pub(crate) fn is_mutex(self, value: u64) -> bool {
        self == Op::Lock || (self == Op::Plain && value == CONTENDED)
    }
}

/// The values that a word was expected to have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Word {
    first: Option<u32>,
    /// How many waits there were for each, up to a few.
    same: u32,
    others: u32,
}

/// The value of Rust's standard library for a thread that is parked: minus one.
const PARKED: u32 = u32::MAX;

impl Word {
    /// A wait has begun that expects a value.
    pub(crate) fn waits(&mut self, value: u64) {
        // A futex has 32 bits.
        let value = (value & u64::from(u32::MAX)) as u32;
        let is_same = *self.first.get_or_insert(value) == value;
        let count = if is_same { &mut self.same } else { &mut self.others };
        *count = count.saturating_add(1);
    }

    pub(crate) fn is_like_a_lock(&self) -> bool {
        let is_taken = self.first.is_some_and(|value| value != 0 && value != PARKED);
        is_taken && self.same > 1 && self.others <= self.same / 8
    }
}

#[cfg(test)]
mod tests {
    use super::{Op, Word};

    #[test]
    fn a_lock_is_told_from_work_by_its_values() {
        let is_lock = |values: &[u64]| {
            let mut word = Word::default();
            values.iter().for_each(|value| word.waits(*value));
            word.is_like_a_lock()
        };
        assert!(is_lock(&[2, 2, 2]));
        assert!(!is_lock(&[0, 0, 0]), "a semaphore, or an event");
        assert!(!is_lock(&[4, 6, 8]), "a count");
        assert!(!is_lock(&[0xffff_ffff, 0xffff_ffff]), "a parked thread");
        assert!(!is_lock(&[2]) && !is_lock(&[]), "too little is known");
    }

    #[test]
    fn a_call_says_what_its_word_is() {
        let (plain, until, lock) = (0, 9, 6);
        assert_eq!([Op::new(plain, 2), Op::new(until, 2)], [Op::Plain, Op::Lock]);
        assert_eq!([Op::new(lock, 0), Op::new(plain, 0x8000_0123)], [Op::Lock; 2]);
        assert_eq!([Op::new(until, 0), Op::new(until, 0xffff_ffff)], [Op::Other; 2]);
        assert!(Op::Plain.is_mutex(2) && !Op::Plain.is_mutex(1) && !Op::Other.is_mutex(2));
    }
}
