//! `RwLock<T, P>`: data behind a read-write lock, with `lock_api`'s guards.

use crate::counters::Uncounted;
use crate::raw::read_write::RawRwLock;

/// Data that many CPUs can read at a time, or one can write. With the feature `lock_api`.
///
/// Where both readers and writers wait, they take turns, so neither starve; and a writer that has
/// slept for long goes before writers that come later ([`RawRwLock`] has the bounds). A thread that
/// reads already and reads once more calls `read_recursive`: `read` may wait for a writer that
/// waits for it.
///
/// A panic while a guard is alive releases the lock; there is no poisoning. Deadlines are
/// [`Nanos`](crate::lock_api::Nanos).
///
/// ```
/// # #[cfg(feature = "threads")] {
/// use overlock::{RwLockUpgradableGuard, ThreadRwLock};
///
/// static NAMES: ThreadRwLock<Vec<String>> = ThreadRwLock::new(Vec::new());
///
/// let mut names = NAMES.write();
/// names.push("Ada".to_owned());
/// drop(names);
/// let (one, other) = (NAMES.upgradable_read(), NAMES.read_recursive());
/// assert_eq!(one[0], other[0]);
/// drop(other);
/// RwLockUpgradableGuard::upgrade(one).clear();
/// # }
/// ```
pub type RwLock<T, P, C = Uncounted> = ::lock_api::RwLock<RawRwLock<P, C>, T>;

/// The right to read the data of an [`RwLock`], beside others.
pub type RwLockReadGuard<'a, T, P, C = Uncounted> =
    ::lock_api::RwLockReadGuard<'a, RawRwLock<P, C>, T>;

/// The right to read the data of an [`RwLock`], beside readers, and to upgrade.
pub type RwLockUpgradableGuard<'a, T, P, C = Uncounted> =
    ::lock_api::RwLockUpgradableReadGuard<'a, RawRwLock<P, C>, T>;

/// The right to write the data of an [`RwLock`].
pub type RwLockWriteGuard<'a, T, P, C = Uncounted> =
    ::lock_api::RwLockWriteGuard<'a, RawRwLock<P, C>, T>;
