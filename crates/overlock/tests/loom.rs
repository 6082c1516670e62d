mod support;
use support::models::*;
use support::platform::*;
fn show(name: &str, f: impl FnOnce() -> Report) {
    support::sites::reset(None);
    let t = std::time::Instant::now();
    let r = f();
    println!(
        "{name}: {} executions, {:?}, {:?}\n   {:?}",
        r.executions,
        t.elapsed(),
        r.events,
        r.failure.as_deref().map(|s| &s[..s.len().min(300)])
    );
    if std::env::var_os("SITES").is_some() {
        for (s, o) in &r.sites {
            println!("      {} {:?}", s.name, o);
        }
    }
}
#[test]
fn probe() {
    let d = Depth::Bounded;
    for (pre, sec, held) in [
        (Some(3), &[2, 1][..], false),
        (Some(2), &[2, 2][..], false),
        (Some(2), &[1, 1, 1][..], true),
        (Some(2), &[1, 1, 1][..], false),
    ] {
        for stale in [false, true] {
            for halt in [Halt::Futex, Halt::Token] {
                let w = World { halt, stale_failures: stale, ..World::PLAIN };
                let p = Plan { preemptions: pre, world: w, sections: sec, held, ..Plan::PLAIN };
                println!("== {halt:?} {pre:?} {sec:?} {stale} {held}");
                if halt == Halt::Futex {
                    show("tas addr", || {
                        sections::<ByAddress, _>(p, d, test_and_set::<ByAddress>, lock, unwatched)
                    });
                }
                show("tas slot", || {
                    sections::<Halting, _>(p, d, test_and_set::<Halting>, lock, unwatched)
                });
                show("ticket", || sections::<Halting, _>(p, d, wide::<Halting>, lock, unwatched));
                show("queued", || sections::<Halting, _>(p, d, queued::<Halting>, lock, unwatched));
                show("hybrid", || sections::<Halting, _>(p, d, hybrid::<Halting>, lock, unwatched));
            }
        }
    }
}
