//! The class of locks in which workloads count.

overlock::lock_class!(
    pub Locks
);
