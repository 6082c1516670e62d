//! What the harness asks of a lock.

/// Something that lets in one thread at a time, or many that only read.
pub(crate) trait Subject: Send + Sync + 'static {
    /// Whether [`share`](Self::share) differs from [`with`](Self::with).
    const SHARES: bool = false;

    fn new() -> Self;

    /// Prepares the lock at its final address, for locks that must not move.
    fn init(&self) {}

    fn with<R>(&self, section: impl FnOnce() -> R) -> R;

    #[inline]
    fn share<R>(&self, section: impl FnOnce() -> R) -> R {
        self.with(section)
    }
}

/// A lock with two condition variables.
pub(crate) trait Monitor: Send + Sync + 'static {
    fn new() -> Self;

    /// Takes the lock, waits on the condition variable `at` until `ready` returns true, and runs
    /// `section`.
    fn enter<R>(&self, at: usize, ready: impl FnMut() -> bool, section: impl FnOnce() -> R) -> R;

    /// Notifies one thread that waits on the condition variable `at`.
    fn notify_one(&self, at: usize);

    fn notify_all(&self, at: usize);

    #[inline]
    fn notify(&self, notify: Notify) {
        match notify {
            Notify::None => {}
            Notify::One(at) => self.notify_one(at),
            Notify::All(at) => self.notify_all(at),
        }
    }
}

/// Whom to notify, and on which condition variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notify {
    None,
    One(usize),
    All(usize),
}
