// SPDX-License-Identifier: MIT OR Apache-2.0
//! The class of locks in which workloads count.

overlock::lock_class!(
    pub Locks
);
