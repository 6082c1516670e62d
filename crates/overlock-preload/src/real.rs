//! The functions that ours intercept: libc's, or those of the next preloaded library.
//!
//! Each is looked up when it is first needed. The look-up takes only locks of the dynamic loader,
//! which are not ours, and allocates nothing if the function exists.

use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use libc::{
    c_int, c_uint, clockid_t, pthread_barrier_t, pthread_barrierattr_t, pthread_cond_t,
    pthread_mutex_t, pthread_rwlock_t, sem_t, timespec,
};
use overlock::platform::report;

/// The version of glibc's present condition variable; there is an older one of a different layout.
#[cfg(target_arch = "x86_64")]
const COND_VERSION: Option<&CStr> = Some(c"GLIBC_2.3.2");
#[cfg(target_arch = "aarch64")]
const COND_VERSION: Option<&CStr> = Some(c"GLIBC_2.17");

/// A function that is looked up once.
pub(crate) struct Function {
    name: &'static CStr,
    version: Option<&'static CStr>,
    address: AtomicPtr<c_void>,
}

impl Function {
    const fn new(name: &'static CStr, version: Option<&'static CStr>) -> Self {
        Self { name, version, address: AtomicPtr::new(core::ptr::null_mut()) }
    }

    pub(crate) fn address(&self) -> *mut c_void {
        // Relaxed: the code behind the address was there before any of ours ran.
        let known = self.address.load(Relaxed);
        if !known.is_null() {
            return known;
        }
        let name = self.name.as_ptr();
        let found = match self.version {
            // SAFETY: both are C strings.
            Some(version) => unsafe { libc::dlvsym(libc::RTLD_NEXT, name, version.as_ptr()) },
            // SAFETY: the name is a C string.
            None => unsafe { libc::dlsym(libc::RTLD_NEXT, name) },
        };
        if found.is_null() {
            report::write(&[
                b"overlock: this libc has no ",
                self.name.to_bytes(),
                b", which the program has called; run it without Overlock\n",
            ]);
            // SAFETY: ends the process: its request can't be fulfilled.
            unsafe { libc::abort() }
        }
        self.address.store(found, Relaxed);
        found
    }
}

/// Declares functions of libc's, by name, version and arguments.
macro_rules! functions {
    ($($name:ident = $symbol:literal, $version:expr, ($($argument:ident: $type:ty),*);)*) => {
        /// The functions that are called from Rust.
        mod known {
            use super::{COND_VERSION, Function};
            $(#[allow(non_upper_case_globals, reason = "named as the function")]
            pub(super) static $name: Function = Function::new($symbol, $version);)*
        }
        $(
            #[doc = concat!("libc's `", stringify!($name), "`.\n\n# Safety\nAs for that.")]
            pub(crate) unsafe fn $name($($argument: $type),*) -> c_int {
                type Call = unsafe extern "C-unwind" fn($($type),*) -> c_int;
                // SAFETY: libc's function of that name and version has this signature.
                let call = unsafe {
                    core::mem::transmute::<*mut c_void, Call>(known::$name.address())
                };
                // SAFETY: the caller's.
                unsafe { call($($argument),*) }
            }
        )*
    };
}

functions! {
    mutex_lock = c"pthread_mutex_lock", None, (mutex: *mut pthread_mutex_t);
    mutex_trylock = c"pthread_mutex_trylock", None, (mutex: *mut pthread_mutex_t);
    mutex_timedlock = c"pthread_mutex_timedlock", None,
        (mutex: *mut pthread_mutex_t, at: *const timespec);
    mutex_clocklock = c"pthread_mutex_clocklock", None,
        (mutex: *mut pthread_mutex_t, clock: clockid_t, at: *const timespec);
    mutex_unlock = c"pthread_mutex_unlock", None, (mutex: *mut pthread_mutex_t);
    mutex_destroy = c"pthread_mutex_destroy", None, (mutex: *mut pthread_mutex_t);
    spin_lock = c"pthread_spin_lock", None, (lock: *mut c_int);
    rwlock_tryrdlock = c"pthread_rwlock_tryrdlock", None, (lock: *mut pthread_rwlock_t);
    rwlock_rdlock = c"pthread_rwlock_rdlock", None, (lock: *mut pthread_rwlock_t);
    rwlock_timedrdlock = c"pthread_rwlock_timedrdlock", None,
        (lock: *mut pthread_rwlock_t, at: *const timespec);
    rwlock_clockrdlock = c"pthread_rwlock_clockrdlock", None,
        (lock: *mut pthread_rwlock_t, clock: clockid_t, at: *const timespec);
    rwlock_trywrlock = c"pthread_rwlock_trywrlock", None, (lock: *mut pthread_rwlock_t);
    rwlock_wrlock = c"pthread_rwlock_wrlock", None, (lock: *mut pthread_rwlock_t);
    rwlock_timedwrlock = c"pthread_rwlock_timedwrlock", None,
        (lock: *mut pthread_rwlock_t, at: *const timespec);
    rwlock_clockwrlock = c"pthread_rwlock_clockwrlock", None,
        (lock: *mut pthread_rwlock_t, clock: clockid_t, at: *const timespec);
    rwlock_unlock = c"pthread_rwlock_unlock", None, (lock: *mut pthread_rwlock_t);
    barrier_init = c"pthread_barrier_init", None,
        (barrier: *mut pthread_barrier_t, attributes: *const pthread_barrierattr_t, count: c_uint);
    barrier_destroy = c"pthread_barrier_destroy", None, (barrier: *mut pthread_barrier_t);
    barrier_wait = c"pthread_barrier_wait", None, (barrier: *mut pthread_barrier_t);
    clock_gettime = c"clock_gettime", None, (clock: clockid_t, now: *mut timespec);
    sem_getvalue = c"sem_getvalue", None, (semaphore: *mut sem_t, value: *mut c_int);
    cond_signal = c"pthread_cond_signal", COND_VERSION, (cond: *mut pthread_cond_t);
    cond_broadcast = c"pthread_cond_broadcast", COND_VERSION, (cond: *mut pthread_cond_t);
    cond_destroy = c"pthread_cond_destroy", COND_VERSION, (cond: *mut pthread_cond_t);
    setcanceltype = c"pthread_setcanceltype", None, (kind: c_int, old: *mut c_int);
}

/// For block.c: the address of libc's `pthread_setcanceltype`.
#[unsafe(no_mangle)]
extern "C" fn overlock_real_setcanceltype() -> *mut c_void {
    known::setcanceltype.address()
}

/// Looks up at the start what a wait will call: a library that stands in for the look-up may lock a
/// mutex.
pub(crate) fn prepare() {
    known::setcanceltype.address();
    LONGJMP.0.address();
    LONGJMP_CHK.0.address();
}

/// libc's `longjmp`, which is also its `_longjmp` and its `siglongjmp`.
pub(crate) static LONGJMP: Jump = Jump(Function::new(c"siglongjmp", None));

/// libc's `__longjmp_chk`, which refuses to jump down.
pub(crate) static LONGJMP_CHK: Jump = Jump(Function::new(c"__longjmp_chk", None));

/// One of libc's jumps.
pub(crate) struct Jump(Function);

impl Jump {
    /// Jumps.
    ///
    /// # Safety
    /// As for libc's function.
    pub(crate) unsafe fn call(&self, buffer: *mut c_void, value: c_int) -> ! {
        // SAFETY: libc's functions have this signature.
        let jump = unsafe {
            core::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void, c_int) -> !>(
                self.0.address(),
            )
        };
        // SAFETY: the caller's.
        unsafe { jump(buffer, value) }
    }
}

/// libc's `pthread_cond_wait`, for the C frame that calls it.
pub(crate) static COND_WAIT: Function = Function::new(c"pthread_cond_wait", COND_VERSION);

pub(crate) static COND_TIMEDWAIT: Function = Function::new(c"pthread_cond_timedwait", COND_VERSION);

pub(crate) static COND_CLOCKWAIT: Function = Function::new(c"pthread_cond_clockwait", None);

/// libc's `sem_wait`, `sem_timedwait` and `sem_clockwait`, likewise.
pub(crate) static SEM_WAITS: [Function; 3] = [
    Function::new(c"sem_wait", None),
    Function::new(c"sem_timedwait", None),
    Function::new(c"sem_clockwait", None),
];
