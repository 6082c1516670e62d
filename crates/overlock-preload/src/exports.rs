//! The names to which the dynamic linker binds programs, each in all the versions that glibc has
//! had of it. Their code is in [`mutex`], [`cond`], [`rwlock`], [`spin`], [`barrier`], [`c11`],
//! [`passed_on`], [`gate`] and [`jump`].
//!
//! A program asks for a version, by its linker or by `dlvsym`, and finds one that is missing here
//! in libc. Calls of the two libraries do not exclude each other on one object, so none may be left
//! out. The names are defined in assembly because only the unit that defines a symbol can give it a
//! version; `versions.map` declares the versions to the linker.
//!
//! Safety is the same for all: POSIX obliges the program to pass pointers to initialised objects.
//!
//! [`mutex`]: crate::mutex
//! [`cond`]: crate::cond
//! [`rwlock`]: crate::rwlock
//! [`spin`]: crate::spin
//! [`barrier`]: crate::barrier
//! [`c11`]: crate::c11
//! [`passed_on`]: crate::passed_on
//! [`gate`]: crate::gate
//! [`jump`]: crate::jump

use core::sync::atomic::AtomicI32;

use libc::{c_int, clockid_t, pthread_cond_t, pthread_mutex_t, sem_t, timespec};

use crate::mutex::{self, Mutex, calls};
use crate::{barrier, c11, cond, gate, jump, rwlock, spin};

/// Defines the functions behind the exported names.
macro_rules! functions {
    ($($name:ident ($($argument:ident: $type:ty),*) $call:expr;)*) => {$(
        unsafe extern "C-unwind" fn $name($($argument: $type),*) -> c_int {
            // SAFETY: the program's.
            unsafe { $call }
        }
    )*};
}

functions! {
    mutex_timedlock (mutex: *mut pthread_mutex_t, at: *const timespec)
        calls::lock_until(Mutex::new(mutex), libc::CLOCK_REALTIME, &*at);
    mutex_clocklock (mutex: *mut pthread_mutex_t, clock: clockid_t, at: *const timespec)
        calls::lock_until(Mutex::new(mutex), clock, &*at);
    mutex_destroy (mutex: *mut pthread_mutex_t) calls::destroy(Mutex::new(mutex));
    cond_signal (cond: *mut pthread_cond_t) cond::signal(cond);
    cond_broadcast (cond: *mut pthread_cond_t) cond::broadcast(cond);
    cond_destroy (cond: *mut pthread_cond_t) cond::destroy(cond);
    spin_lock (lock: *mut c_int) spin::lock(AtomicI32::from_ptr(lock));
    spin_trylock (lock: *mut c_int) spin::try_lock(AtomicI32::from_ptr(lock));
    spin_unlock (lock: *mut c_int) spin::unlock(AtomicI32::from_ptr(lock));
}

/// glibc's first condition variable on this machine, which programs of 2003 use: its initialisation
/// wrote only a word.
#[cfg(target_arch = "x86_64")]
unsafe extern "C" fn first_cond_init(cond: *mut pthread_cond_t, _attributes: *const ()) -> c_int {
    // SAFETY: the program's memory, of a size that has not changed.
    unsafe { cond.write_bytes(0, 1) };
    0
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
    fn overlock_cnd_wait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int;
    fn overlock_cnd_timedwait(
        cond: *mut pthread_cond_t,
        mutex: *mut pthread_mutex_t,
        at: *const timespec,
    ) -> c_int;
    // In passed_on.c.
    fn overlock_sem_wait(semaphore: *mut sem_t) -> c_int;
    fn overlock_sem_timedwait(semaphore: *mut sem_t, at: *const timespec) -> c_int;
    fn overlock_sem_clockwait(
        semaphore: *mut sem_t,
        clock: clockid_t,
        at: *const timespec,
    ) -> c_int;
}

/// Exports a function: `name [at version, at version] [code] operands`. The code ends in a jump, so
/// that no frame lies between the program and the function.
macro_rules! export {
    ($name:literal [$($at:literal $version:literal),+] [$($code:expr),+] $($operands:tt)*) => {
        core::arch::global_asm!(
            ".pushsection .text.overlock_exports, \"ax\", @progbits",
            ".p2align 4",
            $(
                // A label for each version, because not every assembler allows several versions of
                // one.
                concat!(".globl overlock_export_", $name, ".", $version),
                concat!(".type overlock_export_", $name, ".", $version, ", @function"),
                concat!("overlock_export_", $name, ".", $version, ":"),
                concat!(
                    ".symver overlock_export_", $name, ".", $version, ", ", $name, $at, "GLIBC_",
                    $version
                ),
            )+
            ".cfi_startproc",
            $($code,)+
            ".cfi_endproc",
            ".popsection",
            $($operands)*
        );
    };
}

macro_rules! early_text {
    () => {
        "overlock: a library waits while it is being loaded, before Overlock is; run the program \
         without Overlock"
    };
}

/// Defines a word that holds its own address once the dynamic linker has relocated this library,
/// and zero before; and by the given code two functions for that time.
///
/// The linker relocates the program's libraries first, and calls their IFUNC resolvers while it
/// does. One that locks a mutex comes here before any pointer of this library works: tables of
/// functions, calls of libc, the thread's record. The process has one thread then, so locks need do
/// nothing (`overlock_early`). What libc has to do itself can't be passed on to it
/// (`overlock_refuse`): write(2, text, length); exit_group(2).
macro_rules! early {
    ([$($nothing:literal),*] [$($refuse:literal),*]) => {
        core::arch::global_asm!(
            ".pushsection .data.rel.ro.overlock_relocated, \"aw\", @progbits",
            ".p2align 3",
            ".hidden overlock_relocated",
            ".globl overlock_relocated",
            "overlock_relocated: .quad overlock_relocated",
            ".popsection",
            ".pushsection .text.overlock_early, \"ax\", @progbits",
            ".hidden overlock_early",
            ".globl overlock_early",
            "overlock_early:",
            $($nothing,)*
            ".hidden overlock_refuse",
            ".globl overlock_refuse",
            "overlock_refuse:",
            $($refuse,)*
            concat!("2: .ascii \"", early_text!(), "\\n\""),
            ".popsection",
            length = const early_text!().len() + 1
        );
    };
}

#[cfg(target_arch = "x86_64")]
early!(
    ["xor eax, eax", "ret"]
    [
        "mov eax, 1", "mov edi, 2", "lea rsi, [rip + 2f]", "mov edx, {length}", "syscall",
        "mov eax, 231", "mov edi, 2", "syscall"
    ]
);

#[cfg(target_arch = "aarch64")]
early!(
    ["mov w0, 0", "ret"]
    [
        "mov x8, 64", "mov x0, 2", "adr x1, 2f", "mov x2, {length}", "svc 0",
        "mov x8, 94", "mov x0, 2", "svc 0"
    ]
);

/// Exports one line of the table below. `jump` leads to a function, which an early call need not
/// reach; `pass` to one that passes the call on.
///
/// `table`, for the calls of every lock and unlock: if the mutex is a normal one, a jump to the
/// function in the table in use, else to the given function.
#[cfg(target_arch = "x86_64")]
macro_rules! line {
    ($name:literal $versions:tt $_elsewhere:tt (jump $target:path)) => {
        line!(@ $name $versions "je overlock_early" $target);
    };
    ($name:literal $versions:tt $_elsewhere:tt (pass $target:path)) => {
        line!(@ $name $versions "je overlock_refuse" $target);
    };
    (@ $name:literal $versions:tt $early:literal $target:path) => {
        export!(
            $name $versions
            ["cmp qword ptr [rip + overlock_relocated], 0", $early, "jmp {target}"]
            target = sym $target
        );
    };
    ($name:literal $versions:tt $_elsewhere:tt (table $field:ident, $else:path, $_whole:path)) => {
        export!(
            $name $versions
            [
                "test dword ptr [rdi + {kind}], {special}",
                "jne 2f",
                "mov rax, qword ptr [rip + {chosen} + {current}]",
                "lea rcx, [rip + {tables}]",
                "mov rax, qword ptr [rcx + rax + {field}]",
                "test rax, rax",
                "je overlock_early",
                "jmp rax",
                "2:",
                "cmp qword ptr [rip + overlock_relocated], 0",
                "je overlock_early",
                "jmp {else}"
            ]
            kind = const mutex::KIND,
            special = const !mutex::ELISION as i32,
            else = sym $else,
            chosen = sym crate::choice::CHOSEN,
            current = const core::mem::offset_of!(crate::choice::Chosen, current),
            tables = sym crate::tables::TABLES,
            field = const core::mem::offset_of!(crate::operations::Operations, $field)
        );
    };
}

/// Exports one line of the table below. `table` means a function that does all.
#[cfg(target_arch = "aarch64")]
macro_rules! line {
    ($name:literal $_elsewhere:tt [] $_code:tt) => {};
    ($name:literal $_elsewhere:tt $versions:tt (jump $target:path)) => {
        line!(@ $name $versions "2: b overlock_early" $target);
    };
    ($name:literal $_elsewhere:tt $versions:tt (pass $target:path)) => {
        line!(@ $name $versions "2: b overlock_refuse" $target);
    };
    (@ $name:literal $versions:tt $early:literal $target:path) => {
        export!(
            $name $versions
            [
                "adrp x16, overlock_relocated",
                "ldr x16, [x16, :lo12:overlock_relocated]",
                "cbz x16, 2f",
                "b {target}",
                $early
            ]
            target = sym $target
        );
    };
    ($name:literal $elsewhere:tt $versions:tt (table $_field:ident, $_else:path, $whole:path)) => {
        line!($name $elsewhere $versions (jump $whole));
    };
}

/// Exports all calls: `name [versions on x86-64] [versions on aarch64] => (code)`.
macro_rules! exports {
    ($($name:literal $x86_64:tt $aarch64:tt => $code:tt;)*) => {
        $(line!($name $x86_64 $aarch64 $code);)*
    };
}

#[cfg(target_arch = "aarch64")]
functions! {
    mutex_lock (mutex: *mut pthread_mutex_t) calls::lock(Mutex::new(mutex));
    mutex_trylock (mutex: *mut pthread_mutex_t) calls::try_lock(Mutex::new(mutex));
    mutex_unlock (mutex: *mut pthread_mutex_t) calls::unlock(Mutex::new(mutex));
}

// C11's names have no default version: a library that has such names for locks of its own would be
// bound to it, while one that was linked to glibc asks for a version. The price is that `dlsym`,
// which asks for none, finds libc's.
exports! {
    "pthread_mutex_lock"         ["@@" "2.2.5"]              ["@@" "2.17"]             => (table lock, calls::lock_by_kind, mutex_lock);
    "__pthread_mutex_lock"       ["@@" "2.2.5"]              ["@@" "2.17"]             => (table lock, calls::lock_by_kind, mutex_lock);
    "pthread_mutex_trylock"      ["@" "2.2.5", "@@" "2.34"]  ["@" "2.17", "@@" "2.34"] => (table try_lock, calls::try_lock_by_kind, mutex_trylock);
    "__pthread_mutex_trylock"    ["@@" "2.2.5"]              ["@@" "2.17"]             => (table try_lock, calls::try_lock_by_kind, mutex_trylock);
    "pthread_mutex_unlock"       ["@@" "2.2.5"]              ["@@" "2.17"]             => (table unlock, calls::unlock_by_kind, mutex_unlock);
    "__pthread_mutex_unlock"     ["@@" "2.2.5"]              ["@@" "2.17"]             => (table unlock, calls::unlock_by_kind, mutex_unlock);
    "pthread_mutex_timedlock"    ["@" "2.2.5", "@@" "2.34"]  ["@" "2.17", "@@" "2.34"] => (jump mutex_timedlock);
    "pthread_mutex_clocklock"    ["@" "2.30", "@@" "2.34"]   ["@" "2.30", "@@" "2.34"] => (jump mutex_clocklock);
    "pthread_mutex_destroy"      ["@@" "2.2.5"]              ["@@" "2.17"]             => (jump mutex_destroy);
    "__pthread_mutex_destroy"    ["@@" "2.2.5"]              ["@@" "2.17"]             => (jump mutex_destroy);
    "pthread_cond_wait"          ["@" "2.2.5", "@@" "2.3.2"] ["@@" "2.17"]             => (pass overlock_cond_wait);
    "pthread_cond_timedwait"     ["@" "2.2.5", "@@" "2.3.2"] ["@@" "2.17"]             => (pass overlock_cond_timedwait);
    "pthread_cond_clockwait"     ["@" "2.30", "@@" "2.34"]   ["@" "2.30", "@@" "2.34"] => (pass overlock_cond_clockwait);
    "pthread_cond_signal"        ["@" "2.2.5", "@@" "2.3.2"] ["@@" "2.17"]             => (jump cond_signal);
    "pthread_cond_broadcast"     ["@" "2.2.5", "@@" "2.3.2"] ["@@" "2.17"]             => (jump cond_broadcast);
    "pthread_cond_destroy"       ["@" "2.2.5", "@@" "2.3.2"] ["@@" "2.17"]             => (jump cond_destroy);
    "pthread_cond_init"          ["@" "2.2.5"]               []                        => (jump first_cond_init);
    "pthread_spin_lock"          ["@" "2.2.5", "@@" "2.34"]  ["@" "2.17", "@@" "2.34"] => (jump spin_lock);
    "pthread_spin_trylock"       ["@" "2.2.5", "@@" "2.34"]  ["@" "2.17", "@@" "2.34"] => (jump spin_trylock);
    "pthread_spin_unlock"        ["@" "2.2.5", "@@" "2.34"]  ["@" "2.17", "@@" "2.34"] => (jump spin_unlock);
    "pthread_rwlock_rdlock"      ["@" "2.2.5", "@@" "2.34"]  ["@" "2.17", "@@" "2.34"] => (jump rwlock::rdlock);
    "pthread_rwlock_timedrdlock" ["@" "2.2.5", "@@" "2.34"]  ["@" "2.17", "@@" "2.34"] => (jump rwlock::timedrdlock);
    "pthread_rwlock_clockrdlock" ["@" "2.30", "@@" "2.34"]   ["@" "2.30", "@@" "2.34"] => (jump rwlock::clockrdlock);
    "pthread_rwlock_wrlock"      ["@" "2.2.5", "@@" "2.34"]  ["@" "2.17", "@@" "2.34"] => (jump rwlock::wrlock);
    "pthread_rwlock_timedwrlock" ["@" "2.2.5", "@@" "2.34"]  ["@" "2.17", "@@" "2.34"] => (jump rwlock::timedwrlock);
    "pthread_rwlock_clockwrlock" ["@" "2.30", "@@" "2.34"]   ["@" "2.30", "@@" "2.34"] => (jump rwlock::clockwrlock);
    "pthread_rwlock_tryrdlock"  ["@" "2.2.5", "@@" "2.34"]  ["@" "2.17", "@@" "2.34"] => (jump rwlock::tryrdlock);
    "pthread_rwlock_trywrlock"  ["@" "2.2.5", "@@" "2.34"]  ["@" "2.17", "@@" "2.34"] => (jump rwlock::trywrlock);
    "pthread_rwlock_unlock"     ["@" "2.2.5", "@@" "2.34"]  ["@" "2.17", "@@" "2.34"] => (jump rwlock::unlock);
    "__pthread_rwlock_rdlock"   ["@@" "2.2.5"]              ["@@" "2.17"]             => (jump rwlock::rdlock);
    "__pthread_rwlock_wrlock"   ["@@" "2.2.5"]              ["@@" "2.17"]             => (jump rwlock::wrlock);
    "__pthread_rwlock_tryrdlock" ["@@" "2.2.5"]              ["@@" "2.17"]             => (jump rwlock::tryrdlock);
    "__pthread_rwlock_trywrlock" ["@@" "2.2.5"]              ["@@" "2.17"]             => (jump rwlock::trywrlock);
    "__pthread_rwlock_unlock"   ["@@" "2.2.5"]              ["@@" "2.17"]             => (jump rwlock::unlock);
    "mtx_lock"                     ["@" "2.28", "@" "2.34"]   ["@" "2.28", "@" "2.34"] => (jump c11::mtx_lock);
    "mtx_trylock"                  ["@" "2.28", "@" "2.34"]   ["@" "2.28", "@" "2.34"] => (jump c11::mtx_trylock);
    "mtx_timedlock"                ["@" "2.28", "@" "2.34"]   ["@" "2.28", "@" "2.34"] => (jump c11::mtx_timedlock);
    "mtx_unlock"                   ["@" "2.28", "@" "2.34"]   ["@" "2.28", "@" "2.34"] => (jump c11::mtx_unlock);
    "mtx_destroy"                  ["@" "2.28", "@" "2.34"]   ["@" "2.28", "@" "2.34"] => (jump c11::mtx_destroy);
    "cnd_wait"                     ["@" "2.28", "@" "2.34"]   ["@" "2.28", "@" "2.34"] => (pass overlock_cnd_wait);
    "cnd_timedwait"                ["@" "2.28", "@" "2.34"]   ["@" "2.28", "@" "2.34"] => (pass overlock_cnd_timedwait);
    "cnd_signal"                   ["@" "2.28", "@" "2.34"]   ["@" "2.28", "@" "2.34"] => (jump c11::cnd_signal);
    "cnd_broadcast"                ["@" "2.28", "@" "2.34"]   ["@" "2.28", "@" "2.34"] => (jump c11::cnd_broadcast);
    "cnd_destroy"                  ["@" "2.28", "@" "2.34"]   ["@" "2.28", "@" "2.34"] => (jump c11::cnd_destroy);
    "pthread_barrier_wait"       ["@" "2.2.5", "@@" "2.34"]  ["@" "2.17", "@@" "2.34"] => (pass barrier::wait);
    "pthread_barrier_destroy"    ["@" "2.2.5", "@@" "2.34"]  ["@" "2.17", "@@" "2.34"] => (jump barrier::destroy);
    "pthread_setcanceltype"      ["@@" "2.2.5"]              ["@@" "2.17"]             => (jump gate::setcanceltype);
    "longjmp"                    ["@@" "2.2.5"]              ["@@" "2.17"]             => (pass jump::longjmp);
    "_longjmp"                   ["@@" "2.2.5"]              ["@@" "2.17"]             => (pass jump::longjmp);
    "siglongjmp"                 ["@@" "2.2.5"]              ["@@" "2.17"]             => (pass jump::longjmp);
    "__longjmp_chk"              ["@@" "2.11"]               ["@@" "2.17"]             => (pass jump::longjmp_chk);
    "sem_wait"                   ["@" "2.2.5", "@@" "2.34"]  ["@" "2.17", "@@" "2.34"] => (pass overlock_sem_wait);
    "sem_timedwait"              ["@" "2.2.5", "@@" "2.34"]  ["@" "2.17", "@@" "2.34"] => (pass overlock_sem_timedwait);
    "sem_clockwait"              ["@" "2.30", "@@" "2.34"]   ["@" "2.30", "@@" "2.34"] => (pass overlock_sem_clockwait);
}
