//! What a stack waits for, by the tables of names, and which functions that concerns.

use super::Kind;
use super::symbols::Frame;
use super::table::{Line, lines};
use super::word::Op;

/// Returns what a stack waits for. In the C library's wait for a condition, a plain wait is for the
/// mutex, which the thread takes again before it returns; others call another function for that.
/// Elsewhere in the C library it is for an inner lock.
pub(crate) fn kind(stack: &[Frame], op: Op) -> Kind {
    let is_inside = is_inside(stack);
    let (mut kind, mut is_lost_before) = (None, false);
    for frame in &stack[..passed(stack)] {
        let is_passed = is_lost(frame) && !is_passing_on(frame);
        is_lost_before |= is_passed;
        let part = || lines("parts").iter().find(|one| frame.function.contains(one.name));
        // The outermost such function is what the program called.
        let found = function(frame).or_else(|| Some(part().filter(|_| !is_lost_before)?.kind));
        // A function that has lost its name tells nothing, but its module may.
        let lost = match (found, kind) {
            (None, Some(Kind::Condvar)) => interpreter(frame),
            (None, None) => interpreter(frame).filter(|of| *of == Kind::Barrier),
            _ => None,
        };
        kind = found.or(lost).or(kind);
    }
    let takes_lock = |frame: &Frame| TAKES.iter().any(|name| frame.function.contains(name));
    match kind {
        Some(Kind::Condvar)
            if (is_inside && op != Op::Other)
                || stack.iter().take(passed(stack)).any(takes_lock) =>
        {
            Kind::Retake
        }
        None if op == Op::Plain && is_inside => Kind::Libc,
        // A function that calls the one that waits as its last step has left no frame.
        None if op == Op::Lock && is_inside => Kind::Mutex,
        found => found.unwrap_or(Kind::Futex),
    }
}

/// The functions by which Rust's libraries wait for a mutex.
const TAKES: [&str; 2] = ["lock_contended", "lock_slow"];

/// Returns the kind of a stream's lock, by the number of the stream's file.
pub(crate) fn of_stream(file: i32) -> Kind {
    let line = lines("streams").iter().find(|line| line.name.parse() == Ok(file));
    line.map_or(Kind::Stream, |line| line.kind)
}

/// Returns whether the C library itself waits, and not a program by its `syscall`.
pub(crate) fn is_inside(stack: &[Frame]) -> bool {
    let is_syscall = |frame: &Frame| frame.function == "syscall" && is_of_libc(frame);
    stack.first().is_some_and(is_of_libc) && !stack.iter().any(is_syscall)
}

fn is_of_libc(frame: &Frame) -> bool {
    ["libc.so", "libc-", "ld-musl"].iter().any(|start| frame.module.starts_with(start))
}

/// Leaves out what a C++ function of a template returns.
fn path(function: &str) -> &str {
    let (mut depth, end) = (0, function.find('(').unwrap_or(function.len()));
    let space = function[..end].find(|letter| {
        depth += i32::from(letter == '<') - i32::from(letter == '>');
        letter == ' ' && depth == 0
    });
    match space {
        Some(at) if !function[..at].ends_with("operator") => &function[at + 1..],
        _ => function,
    }
}

fn function(frame: &Frame) -> Option<Kind> {
    beginning("functions", &frame.function).map(|one| one.kind)
}

fn interpreter(frame: &Frame) -> Option<Kind> {
    beginning("interpreters", &frame.module).map(|one| one.kind)
}

/// Returns the first line of a table with which a name begins.
fn beginning(table: &str, name: &str) -> Option<&'static Line> {
    let path = path(name);
    lines(table).iter().find(|one| path.starts_with(one.name))
}

/// Returns what a stack waits for where the source has told. A lock may be made of semaphores or
/// of condition variables, which only the names of its functions say.
pub(crate) fn kind_of(told: Option<Kind>, stack: &[Frame], op: Op) -> Kind {
    let named = kind(stack, op);
    match told {
        Some(
            Kind::Semaphore | Kind::Condvar | Kind::Mutex | Kind::Futex | Kind::Timer | Kind::Poll,
        ) if stack
            .iter()
            .take(passed(stack))
            .any(|frame| function(frame).or_else(|| interpreter(frame)).is_some()) =>
        {
            match named {
                // A function that has lost its name is of an interpreter's lock only where it waits
                // for a condition.
                Kind::Futex => told.and_then(|told| lost(told, stack)).unwrap_or(Kind::Futex),
                named => named,
            }
        }
        Some(told) => told,
        None => named,
    }
}

/// What an interpreter's function without a name waits for, where the source has told of the wait.
fn lost(told: Kind, stack: &[Frame]) -> Option<Kind> {
    let by_module = stack.iter().find_map(interpreter).filter(|_| told == Kind::Condvar);
    by_module.or(Some(told))
}

fn is_passing_on(frame: &Frame) -> bool {
    beginning("libraries", &frame.module).is_some()
        || beginning("wrappers", &frame.function).is_some()
        || function(frame).is_some()
        || (frame.function.starts_with(&frame.module) && interpreter(frame).is_some())
        || implemented(&frame.function).is_some_and(|(_, like, _)| is_of_rust(like))
}

/// Returns whether a function has lost its name, and is known by its address only.
fn is_lost(frame: &Frame) -> bool {
    !frame.module.is_empty() && frame.function.starts_with(&format!("{}+", frame.module))
}

/// Returns how many of the innermost functions pass a wait on. Those that have lost their names are
/// among them if their caller is known to wait.
fn passed(stack: &[Frame]) -> usize {
    let count = |is: fn(&Frame) -> bool| stack.iter().take_while(|frame| is(frame)).count();
    let (plain, with_lost) =
        (count(is_passing_on), count(|one| is_passing_on(one) || is_lost(one)));
    let known = stack[plain..with_lost].iter().rposition(|frame| function(frame).is_some());
    known.map_or(plain, |known| plain + known + 1)
}

fn is_of_rust(path: &str) -> bool {
    ["core::", "std::", "alloc::"].iter().any(|start| path.starts_with(start))
}

/// Returns the type, the trait if there is one, and the method of a name of Rust such as
/// `<T as core::cmp::Ord>::cmp` or `<T>::cmp`.
fn implemented(function: &str) -> Option<(&str, &str, &str)> {
    let mut depth = 0;
    let close = function.find(|letter| {
        depth += i32::from(letter == '<') - i32::from(letter == '>');
        depth == 0
    })?;
    let (of, method) = (function.get(1..close)?, function[close..].strip_prefix(">::")?);
    let (of, like) = of.split_once(" as ").unwrap_or((of, ""));
    Some((of, like, method))
}

/// How many callers of a function are shown with it.
const CALLERS: usize = 2;
/// Where threads begin: nothing is told by these.
const BEGINNINGS: [&str; 12] = [
    "operator()",
    "__invoke",
    "_M_",
    "__rust_try",
    "start_thread",
    "clone",
    "__clone",
    "_start",
    "__libc_start",
    "thread_native_entry",
    "main",
    "runtime.goexit",
];

/// Returns whether the function that concerns the user is an interpreter's.
pub(crate) fn is_interpreters(stack: &[Frame]) -> bool {
    stack
        .iter()
        .find(|frame| !is_passing_on(frame))
        .is_none_or(|frame| interpreter(frame).is_some())
}

/// Returns the function that concerns the user, the first of the program's own, and its callers.
pub(crate) fn place(stack: &[Frame]) -> (String, Vec<String>) {
    let is_named = |frame: &Frame| !frame.function.starts_with("0x");
    let passed = passed(stack);
    let is_own = |frame: &Frame| !is_passing_on(frame) && is_named(frame);
    let first = stack[passed..].iter().position(is_own).map(|at| at + passed);
    // A library may name only the functions that others call.
    let of_module = |first: usize| {
        let of = |frame: &Frame| is_own(frame) && !is_lost(frame);
        let mut same = stack[first..].iter().take_while(|one| one.module == stack[first].module);
        same.position(of).map_or(first, |at| at + first)
    };
    let own = first.map(of_module);
    // Without one, the outermost function that the tables know.
    let known = || stack.iter().rposition(|frame| function(frame).is_some());
    let outermost = || {
        let of_library = stack.iter().rposition(|frame| is_named(frame) && !is_of_libc(frame));
        of_library.or_else(|| stack.iter().rposition(is_named))
    };
    let unnamed = || stack.iter().position(|frame| !is_passing_on(frame));
    let Some(at) = own.or_else(known).or_else(outermost).or_else(unnamed) else {
        return ("?".to_owned(), Vec::new());
    };
    let frame = &stack[at];
    let function = short(&frame.function);
    let place = match &frame.line {
        Some(line) => format!("{function} ({line})"),
        None if frame.module.is_empty() => function.clone(),
        None => format!("{function} ({})", frame.module),
    };
    let is_caller = |frame: &&Frame| {
        is_named(frame)
            && !is_lost(frame)
            && !is_of_libc(frame)
            && !BEGINNINGS.iter().any(|start| frame.function.starts_with(start))
            && beginning("wrappers", &frame.function).is_none()
    };
    let callers = stack[at + 1..].iter().filter(is_caller).map(|frame| short(&frame.function));
    let mut callers: Vec<String> = callers.filter(|name| *name != function).collect();
    callers.dedup();
    callers.truncate(CALLERS);
    (place, callers)
}

/// Returns the C library's function by which a stack came to wait inside of it.
pub(crate) fn libcs(stack: &[Frame]) -> Option<String> {
    let inside = stack.iter().take_while(|frame| is_of_libc(frame));
    let named = inside
        .filter(|frame| !frame.function.contains('+') && !frame.function.starts_with("__lll"))
        .last()?;
    Some(named.function.clone())
}

/// Returns the name of a function without what tells the user nothing: its arguments, a trait, a
/// closure, a hash, what compilers add, and long arguments of templates.
fn short(function: &str) -> String {
    if let Some((of, _, method)) = implemented(function) {
        return format!("{}::{}", short(of), short(method));
    }
    let (mut whole, mut depth, mut open) = (String::new(), 0, 0);
    let name = path(function).replace("(anonymous namespace)::", "");
    for letter in name.chars() {
        match letter {
            // A method of Go has its type in brackets behind its package.
            '(' if depth == 0 && !whole.is_empty() && !whole.ends_with('.') => break,
            '<' if depth == 0 => open = whole.len(),
            _ => {}
        }
        depth += i32::from(letter == '<') - i32::from(letter == '>');
        whole.push(letter);
        if letter == '>' && depth == 0 && whole.len() - open > LONG {
            whole.replace_range(open.., "<..>");
        }
    }
    let end = ADDED.iter().filter_map(|added| whole.find(added)).min();
    whole.truncate(end.unwrap_or(whole.len()));
    match whole.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == 16 => name.to_owned(),
        _ => whole,
    }
}

/// What compilers add to the name of a part of a function, or of a version of it.
const ADDED: [&str; 7] =
    ["::{{closure", "::{closure", ".isra.", ".constprop.", ".part.", ".cold", ".llvm."];
/// Longer arguments of a template are left out.
const LONG: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, module: &str) -> Frame {
        let line = (module == "app").then(|| "app.c:7".to_owned());
        Frame { function: function.into(), line, module: module.into() }
    }

    /// Reads a stack: functions, each with its module, without which it is of the C library.
    fn stack(text: &str) -> Vec<Frame> {
        let all = text.split(" <- ").map(|one| one.split_once('@').unwrap_or((one, "libc.so.6")));
        all.map(|(function, module)| frame(function, module)).collect()
    }

    /// What a line of the tables knows is of another library.
    fn example(text: &str) -> Vec<Frame> {
        let of = |mut one: Frame| {
            if function(&one).is_some() {
                one.module = "some.so".into();
            }
            one
        };
        stack(text).into_iter().map(of).collect()
    }

    #[test]
    fn each_line_of_the_tables_decides_its_example() {
        let is_kind = |line: &Line, stack: &[Frame]| {
            assert_eq!(super::kind(stack, Op::Other), line.kind, "{}", line.name);
        };
        for line in lines("parts") {
            let stack = example(line.example);
            let last = &stack.last().unwrap().function;
            let first = lines("parts").iter().find(|one| last.contains(one.name)).unwrap();
            assert_eq!(first.name, line.name, "{last}");
            is_kind(line, &stack);
        }
        for line in lines("functions") {
            let stack = example(line.example);
            let decides = stack.iter().rev().find_map(|one| beginning("functions", &one.function));
            assert_eq!(decides.unwrap().name, line.name, "{}", line.example);
            is_kind(line, &stack);
        }
        for line in lines("interpreters") {
            let module = line.name;
            let lost = frame(&format!("{module}.x+0x1"), &format!("{module}.x"));
            let stack = [frame("pthread_cond_timedwait", "libc.so.6"), lost];
            is_kind(line, &stack);
            assert_eq!(kind_of(Some(Kind::Condvar), &stack[1..], Op::Other), line.kind, "{module}");
            let team = [Kind::Barrier].contains(&line.kind).then_some(Kind::Barrier);
            let other = kind_of(Some(Kind::Semaphore), &stack[1..], Op::Other);
            assert_eq!(other, team.unwrap_or(Kind::Semaphore));
        }
    }

    #[test]
    fn the_programs_own_function_is_named() {
        let check = |text: &str, op, is: Kind, at: &str| {
            let stack = stack(text);
            assert_eq!((kind(&stack, op), &*place(&stack).0), (is, at), "{text}");
        };
        let put = "libc.so.6+0x98d61 <- pthread_mutex_lock <- put@app";
        check(put, Op::Other, Kind::Mutex, "put (app.c:7)");
        let pop = "x <- pthread_cond_wait <- \
                   std::condition_variable::wait(std::unique_lock<std::mutex>&)@libstdc++.so.6 <- \
                   Queue::pop(int)@app";
        check(pop, Op::Other, Kind::Condvar, "Queue::pop (app.c:7)");
        check(pop, Op::Plain, Kind::Retake, "Queue::pop (app.c:7)");
        let idle = "syscall <- std::sync::poison::condvar::Condvar::wait_timeout@app <- \
                    tokio::runtime::blocking::pool::Spawner::spawn_thread@app <- \
                    core::ops::function::FnOnce::call_once@app";
        assert_eq!(kind(&stack(idle), Op::Other), Kind::Idle);
        let get = "syscall <- parking_lot_core::parking_lot::park@app <- \
                   parking_lot::raw_condvar::RawCondvar::wait_until_internal@app <- get@app";
        check(get, Op::Plain, Kind::Condvar, "get (app.c:7)");
        let again = get.replace("parking_lot::park", "raw_mutex::RawMutex::lock_slow");
        check(&again, Op::Plain, Kind::Retake, "get (app.c:7)");
        assert_eq!((kind(&[], Op::Other), place(&[]).0), (Kind::Futex, "?".into()));
        let store = "pthread_rwlock_wrlock <- __glibcxx_rwlock_wrlock(pthread_rwlock_t*)@app <- \
                     std::unique_lock<std::shared_mutex>::lock()@app <- store(int)@app";
        check(store, Op::Other, Kind::Writer, "store (app.c:7)");
        let query = "syscall <- void std::__detail::__platform_wait<int>(int const*, int)@app <- \
                     std::counting_semaphore<1l>::acquire()@app <- void query<int>(int)@app";
        check(query, Op::Other, Kind::Semaphore, "query<int> (app.c:7)");
        let compares = "<i32 as core::cmp::PartialOrd>::lt@app <- \
                        <lib::Raw as lock_api::RawRwLock>::lock_exclusive@app";
        assert_eq!(place(&stack(compares)).0, "lib::Raw::lock_exclusive (app.c:7)");
        let rust = "std::sys::sync::mutex::futex::Mutex::lock_contended@app <- \
                    main::h0123456789abcdef@app";
        check(rust, Op::Other, Kind::Mutex, "main (app.c:7)");
        for (long, name) in [
            ("Store<std::__cxx11::basic_string<char> >::find(int)", "Store<..>::find"),
            ("Map<Key, std::vector<int, std::allocator<int> > >::at(int) const", "Map<..>::at"),
            ("<app::Pool<T>>::run::{closure#0}", "app::Pool<T>::run"),
            ("<T as app::Job>::run::{{closure}}::h0123456789abcdef", "T::run"),
            ("app::main::{{closure}}", "app::main"),
            ("node::(anonymous namespace)::Worker(void*)", "node::Worker"),
            ("publish.isra.0", "publish"),
            ("os.(*File).Sync", "os.(*File).Sync"),
            ("operator()(int)", "operator"),
        ] {
            assert_eq!(place(&[frame(long, "")]).0, name);
        }
    }

    /// A library that was stripped names what others call. A lock is known by that, too.
    #[test]
    fn functions_without_names_are_passed_over_to_those_of_their_library() {
        let busy = "usleep <- libsqlite3.so+0x1@libsqlite3.so <- \
                    sqlite3InvokeBusyHandler@libsqlite3.so <- libsqlite3.so+0x2@libsqlite3.so <- \
                    sqlite3_step@libsqlite3.so <- f@app";
        let work = "usleep <- libsqlite3.so+0x1@libsqlite3.so <- f@app";
        for (text, is, at) in [
            (busy, Kind::FileLock, "sqlite3_step (libsqlite3.so)"),
            (work, Kind::Timer, "libsqlite3.so+0x1 (libsqlite3.so)"),
        ] {
            let stack = stack(text);
            assert_eq!(kind_of(Some(Kind::Timer), &stack, Op::Other), is);
            assert_eq!(place(&stack).0, at);
        }
    }

    #[test]
    fn callers_tell_rows_of_one_wrapper_apart() {
        let callers = vec!["slow_path".to_owned(), "work".to_owned()];
        let slow = stack("pthread_mutex_lock <- my_lock@app <- slow_path@app <- work@app");
        assert_eq!(place(&slow), ("my_lock (app.c:7)".to_owned(), callers));
        let end = stack("pthread_mutex_lock <- my_lock@app <- start_thread");
        assert_eq!(place(&end).1, Vec::<String>::new());
    }

    #[test]
    fn a_lock_may_be_made_of_semaphores() {
        let server =
            stack("PGSemaphoreLock@postgres <- LWLockAcquire@postgres <- XLogFlush@postgres");
        let told = Some(Kind::Semaphore);
        assert_eq!(kind_of(told, &server, Op::Other), Kind::Mutex);
        assert_eq!(place(&server).0, "XLogFlush (postgres)");
        assert_eq!(kind_of(told, &stack("take@app"), Op::Other), Kind::Semaphore);
        assert_eq!(kind_of(None, &server, Op::Other), Kind::Mutex);
    }

    #[test]
    fn a_lock_inside_of_the_c_library_is_known() {
        let stack = stack("libc.so.6+0x8 <- localtime_r <- log_date@app");
        assert_eq!(kind(&stack, Op::Plain), Kind::Libc);
        assert_eq!(kind(&stack, Op::Other), Kind::Futex, "it may be anything");
        assert_eq!(kind(&stack[..1], Op::Lock), Kind::Mutex, "until a time");
        assert_eq!(libcs(&stack), Some("localtime_r".into()));
    }
}
