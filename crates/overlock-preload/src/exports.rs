// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names that the dynamic linker binds programs to. What they do is in [`mutex`], [`cond`] and
//! [`spin`].
//!
//! Safety is the same for all: POSIX obliges the program to pass pointers to initialised objects.
//!
//! [`mutex`]: crate::mutex
//! [`cond`]: crate::cond
//! [`spin`]: crate::spin

use core::sync::atomic::AtomicI32;

use libc::{c_int, clockid_t, pthread_cond_t, pthread_mutex_t, timespec};

use crate::mutex::Mutex;
use crate::{cond, mutex, spin};

/// Defines exported functions.
macro_rules! export {
    ($($name:ident ($($argument:ident: $type:ty),*) $body:block)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type),*) -> c_int $body
        )*
    };
}

export! {
    pthread_mutex_lock (mutex: *mut pthread_mutex_t) {
        // SAFETY: the program's.
        mutex::lock(unsafe { Mutex::new(mutex) })
    }

    pthread_mutex_trylock (mutex: *mut pthread_mutex_t) {
        // SAFETY: the program's.
        mutex::try_lock(unsafe { Mutex::new(mutex) })
    }

    pthread_mutex_timedlock (mutex: *mut pthread_mutex_t, at: *const timespec) {
        // SAFETY: the program's.
        let at = unsafe { &*at };
        // SAFETY: the program's.
        mutex::lock_until(unsafe { Mutex::new(mutex) }, libc::CLOCK_REALTIME, at)
    }

    pthread_mutex_clocklock (mutex: *mut pthread_mutex_t, clock: clockid_t, at: *const timespec) {
        // SAFETY: the program's.
        let at = unsafe { &*at };
        // SAFETY: the program's.
        mutex::lock_until(unsafe { Mutex::new(mutex) }, clock, at)
    }

    pthread_mutex_unlock (mutex: *mut pthread_mutex_t) {
        // SAFETY: the program's.
        mutex::unlock(unsafe { Mutex::new(mutex) })
    }

    pthread_mutex_destroy (mutex: *mut pthread_mutex_t) {
        // SAFETY: the program's.
        mutex::destroy(unsafe { Mutex::new(mutex) })
    }

    pthread_cond_signal (cond: *mut pthread_cond_t) {
        // SAFETY: the program's.
        unsafe { cond::signal(cond) }
    }

    pthread_cond_broadcast (cond: *mut pthread_cond_t) {
        // SAFETY: the program's.
        unsafe { cond::broadcast(cond) }
    }

    pthread_cond_destroy (cond: *mut pthread_cond_t) {
        // SAFETY: the program's.
        unsafe { cond::destroy(cond) }
    }

    pthread_spin_lock (lock: *mut c_int) {
        // SAFETY: the program's.
        spin::lock(unsafe { AtomicI32::from_ptr(lock) });
        0
    }

    pthread_spin_trylock (lock: *mut c_int) {
        // SAFETY: the program's.
        spin::try_lock(unsafe { AtomicI32::from_ptr(lock) })
    }

    pthread_spin_unlock (lock: *mut c_int) {
        // SAFETY: the program's.
        spin::unlock(unsafe { AtomicI32::from_ptr(lock) });
        0
    }
}

unsafe extern "C" {
    // In block.c.
    fn overlock_cond_wait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int;
    fn overlock_cond_timedwait(
        cond: *mut pthread_cond_t,
        mutex: *mut pthread_mutex_t,
        at: *const timespec,
    ) -> c_int;
    fn overlock_cond_clockwait(
        cond: *mut pthread_cond_t,
        mutex: *mut pthread_mutex_t,
        clock: clockid_t,
        at: *const timespec,
    ) -> c_int;
}

/// Defines exported functions that are nothing but a jump: second names, as libc has them, and the
/// waits, so that no Rust frame lies between the program and the C function.
macro_rules! export_jump {
    ($($name:ident => $target:ident ($($argument:ident: $type:ty),*);)*) => {
        $(
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
                #[cfg(target_arch = "x86_64")]
                core::arch::naked_asm!("jmp {}", sym $target);
                #[cfg(target_arch = "aarch64")]
                core::arch::naked_asm!("b {}", sym $target);
            }
        )*
    };
}

export_jump! {
    __pthread_mutex_lock => pthread_mutex_lock (_mutex: *mut pthread_mutex_t);
    __pthread_mutex_trylock => pthread_mutex_trylock (_mutex: *mut pthread_mutex_t);
    __pthread_mutex_unlock => pthread_mutex_unlock (_mutex: *mut pthread_mutex_t);
    __pthread_mutex_destroy => pthread_mutex_destroy (_mutex: *mut pthread_mutex_t);
    pthread_cond_wait => overlock_cond_wait (_cond: *mut pthread_cond_t, _mutex: *mut pthread_mutex_t);
    pthread_cond_timedwait => overlock_cond_timedwait
        (_cond: *mut pthread_cond_t, _mutex: *mut pthread_mutex_t, _at: *const timespec);
    pthread_cond_clockwait => overlock_cond_clockwait
        (_cond: *mut pthread_cond_t, _mutex: *mut pthread_mutex_t, _clock: clockid_t, _at: *const timespec);
}
