//! Stand-in.
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, Ordering::*};
pub(crate) struct Threads;
pub(crate) unsafe trait RawLock { const NEW: Self; fn lock(&self); fn try_lock(&self) -> bool; unsafe fn unlock(&self); }
pub(crate) trait RawTimedLock: RawLock { fn try_lock_until(&self, deadline_ns: u64) -> bool; }
macro_rules! l { ($($n:ident)*) => { $(
pub(crate) struct $n<P>(AtomicU32, PhantomData<P>);
unsafe impl<P> RawLock for $n<P> {
    const NEW: Self = Self(AtomicU32::new(0), PhantomData);
    fn lock(&self) { if !self.try_lock() { wait(&self.0, None); } }
    #[inline(always)] fn try_lock(&self) -> bool { self.0.compare_exchange(0, 1, Acquire, Relaxed).is_ok() }
    #[inline(always)] unsafe fn unlock(&self) { if self.0.swap(0, Release) == 2 { unsafe { libc::syscall(libc::SYS_futex, &self.0, 129, 1) }; } }
}
impl<P> RawTimedLock for $n<P> { fn try_lock_until(&self, d: u64) -> bool { self.try_lock() || wait(&self.0, Some(d)) } }
)* } }
l!(Hybrid Ticket Queued TestAndSet);
fn wait(w: &AtomicU32, d: Option<u64>) -> bool {
    while w.swap(2, Acquire) != 0 {
        let t = d.map(|d| libc::timespec { tv_sec: (d / 1000000000) as i64, tv_nsec: (d % 1000000000) as i64 });
        let r = unsafe { libc::syscall(libc::SYS_futex, w, 9 | 128, 2, t.as_ref().map_or(core::ptr::null(), |t| t as *const _), 0, u32::MAX) };
        if r != 0 && unsafe { *libc::__errno_location() } == libc::ETIMEDOUT { return false; }
    }
    true
}
