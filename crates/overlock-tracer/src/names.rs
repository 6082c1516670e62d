// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a stack waits for, by the names of its functions, and which function that concerns.

use crate::kind::Kind;
use crate::symbols::Frame;

/// Parts of function names, and what a thread in such a function waits for: the first that is found
/// decides.
const KINDS: [(&str, Kind); 35] = [
    ("wrlock", Kind::Writer),
    ("RwLock::write", Kind::Writer),
    ("RwLock<T>::write", Kind::Writer),
    ("lock_exclusive", Kind::Writer),
    ("shared_lock<", Kind::RwLock),
    ("lock_shared", Kind::RwLock),
    ("shared_mutex", Kind::Writer),
    ("shared_timed_mutex", Kind::Writer),
    ("_join", Kind::Join),
    ("::join", Kind::Join),
    ("JoinInner", Kind::Join),
    ("pthread_mutex", Kind::Mutex),
    ("pthread_rwlock", Kind::RwLock),
    ("pthread_cond_", Kind::Condvar),
    ("pthread_barrier", Kind::Barrier),
    ("sem_wait", Kind::Semaphore),
    ("sem_timedwait", Kind::Semaphore),
    ("sem_clockwait", Kind::Semaphore),
    ("cnd_", Kind::Condvar),
    ("mtx_", Kind::Mutex),
    ("condvar", Kind::Condvar),
    ("condition_variable", Kind::Condvar),
    ("Condvar", Kind::Condvar),
    ("thread_parking", Kind::Condvar),
    ("RwLock", Kind::RwLock),
    ("rwlock", Kind::RwLock),
    ("raw_rwlock", Kind::RwLock),
    ("Mutex", Kind::Mutex),
    ("mutex", Kind::Mutex),
    ("Once", Kind::Mutex),
    ("runtime.lock2", Kind::Mutex),
    ("runtime.notesleep", Kind::Condvar),
    ("runtime.notetsleep", Kind::Condvar),
    ("malloc", Kind::Mutex),
    // PostgreSQL's processes sleep here for its light-weight locks, and for nothing else.
    ("PGSemaphoreLock", Kind::Mutex),
];

/// Modules that only pass a wait on.
const LIBRARIES: [&str; 9] = [
    "libc.so",
    "libc-",
    "libpthread",
    "ld-linux",
    "libstdc++",
    "libc++",
    "libgcc",
    "ld-musl",
    "liboverlock_",
];

/// Beginnings of the names of functions that only pass a wait on.
const WRAPPERS: [&str; 26] = [
    "std::",
    "core::",
    "<std::",
    "<core::",
    "alloc::",
    "parking_lot",
    "<parking_lot",
    "lock_api",
    "<lock_api",
    "__glibcxx",
    "crossbeam_utils::backoff",
    "PGSemaphore",
    "LWLock",
    "__gthread",
    "__gthrw",
    "runtime.",
    "sync.",
    "internal/",
    "syscall",
    "futex",
    "pthread_",
    "__pthread",
    "___pthread",
    "__lll",
    "__futex",
    "sem_",
];

/// Returns what a stack waits for. In the C library's wait for a condition, a plain wait is for the
/// mutex, which the thread takes again before it returns.
pub(crate) fn kind(stack: &[Frame], is_plain: bool) -> Kind {
    let named = stack.iter().take_while(|frame| is_passing_on(frame));
    // The outermost such function is what the program called; malloc is called by no other of them.
    let kinds = named.filter_map(|frame| {
        let found = KINDS.iter().find(|(part, _)| frame.function.contains(part));
        found.map(|(_, kind)| *kind)
    });
    match kinds.last() {
        Some(Kind::Condvar) if is_plain => Kind::Mutex,
        found => found.unwrap_or(Kind::Futex),
    }
}

/// Returns what a stack waits for where the source has told. A lock may be made of semaphores,
/// which only the names of its functions say.
pub(crate) fn kind_of(told: Option<Kind>, stack: &[Frame], is_plain: bool) -> Kind {
    let named = kind(stack, is_plain);
    match told {
        Some(Kind::Semaphore) if named == Kind::Mutex => named,
        Some(told) => told,
        None => named,
    }
}

fn is_passing_on(frame: &Frame) -> bool {
    LIBRARIES.iter().any(|library| frame.module.starts_with(library))
        || WRAPPERS.iter().any(|start| frame.function.starts_with(start))
        || implemented(&frame.function).is_some_and(|(_, of)| is_of_rust(of))
}

fn is_of_rust(path: &str) -> bool {
    ["core::", "std::", "alloc::"].iter().any(|start| path.starts_with(start))
}

/// Returns the type and the trait of a Rust method such as `<T as core::cmp::Ord>::cmp`.
fn implemented(function: &str) -> Option<(&str, &str)> {
    let inside = function.strip_prefix('<')?;
    let (of, rest) = inside.split_once(" as ")?;
    Some((of, rest))
}

/// Returns the function that concerns the user: the first of the program's own.
pub(crate) fn place(stack: &[Frame]) -> String {
    let own = stack.iter().find(|frame| !is_passing_on(frame));
    let Some(frame) = own.or(stack.last()) else { return "?".to_owned() };
    let function = short(&frame.function);
    match &frame.line {
        Some(line) => format!("{function} ({line})"),
        None if frame.module.is_empty() => function,
        None => format!("{function} ({})", frame.module),
    }
}

/// Leaves out the arguments of a C++ function, and the hash and the trait of a Rust one.
fn short(function: &str) -> String {
    if let Some((of, rest)) = implemented(function)
        && let Some((_, method)) = rest.rsplit_once(">::")
    {
        return format!("{of}::{}", short(method));
    }
    let without_hash = match function.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == 16 => name,
        _ => function,
    };
    without_hash.split('(').next().filter(|name| !name.is_empty()).unwrap_or(function).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, module: &str) -> Frame {
        let line = (module == "app").then(|| "app.c:7".to_owned());
        Frame { function: function.into(), line, module: module.into() }
    }

    #[test]
    fn the_programs_own_function_is_named() {
        let libc = |name| frame(name, "libc.so.6");
        let stack = [libc("libc.so.6+0x98d61"), libc("pthread_mutex_lock"), frame("put", "app")];
        assert_eq!((kind(&stack, false), place(&stack)), (Kind::Mutex, "put (app.c:7)".into()));
        let wait = libc("pthread_cond_wait");
        let cpp =
            frame("std::condition_variable::wait(std::unique_lock<std::mutex>&)", "libstdc++.so.6");
        let stack = [libc("x"), wait, cpp, frame("Queue::pop(int)", "app")];
        assert_eq!(
            (kind(&stack, false), place(&stack)),
            (Kind::Condvar, "Queue::pop (app.c:7)".into())
        );
        assert_eq!(kind(&stack, true), Kind::Mutex, "the mutex is taken again");
        assert_eq!((kind(&[], false), place(&[])), (Kind::Futex, "?".into()));
        let cpp = [
            libc("pthread_rwlock_wrlock"),
            frame("__glibcxx_rwlock_wrlock(pthread_rwlock_t*)", "app"),
            frame("std::unique_lock<std::shared_mutex>::lock()", "app"),
            frame("store(int)", "app"),
        ];
        assert_eq!((kind(&cpp, false), place(&cpp)), (Kind::Writer, "store (app.c:7)".into()));
        let reader = [
            libc("pthread_rwlock_rdlock"),
            frame("std::shared_lock<std::shared_mutex>::lock()", "app"),
        ];
        assert_eq!(kind(&reader, false), Kind::RwLock);
        let join =
            [libc("x"), frame("std::thread::JoinHandle<T>::join", "app"), frame("main", "app")];
        assert_eq!((kind(&join, false), place(&join)), (Kind::Join, "main (app.c:7)".into()));
        let compares = [
            frame("<i32 as core::cmp::PartialOrd>::lt", "app"),
            frame("<lib::Raw as lock_api::RawRwLock>::lock_exclusive", "app"),
        ];
        assert_eq!(place(&compares), "lib::Raw::lock_exclusive (app.c:7)");
        let rust = [
            frame("std::sys::sync::mutex::futex::Mutex::lock_contended", "app"),
            frame("main::h0123456789abcdef", "app"),
        ];
        assert_eq!((kind(&rust, false), place(&rust)), (Kind::Mutex, "main (app.c:7)".into()));
    }

    #[test]
    fn a_lock_may_be_made_of_semaphores() {
        let server = ["PGSemaphoreLock", "LWLockAcquire", "XLogFlush"];
        let server = server.map(|function| frame(function, "postgres"));
        let told = Some(Kind::Semaphore);
        assert_eq!(kind_of(told, &server, false), Kind::Mutex);
        assert_eq!(kind_of(told, &[frame("take", "app")], false), Kind::Semaphore);
        assert_eq!(kind_of(Some(Kind::Condvar), &server, false), Kind::Condvar);
        assert_eq!(kind_of(None, &server, false), Kind::Mutex);
    }
}
