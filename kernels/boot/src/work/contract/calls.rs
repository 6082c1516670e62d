//! Clauses that take two CPUs: one waits, the other calls it back.

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering::*};

use overlock::platform::{Cpu, Platform as _};

use super::super::checks::Alive;
use super::support::{TICK_US, Verdict, await_change, by_kick, ensure, tries, with_ticks};
use crate::cpus;
use crate::kernel::{Kernel, everywhere};
use crate::machine::{clock, halt, io};
use crate::platform::bare::Bare;
use crate::platform::{HaltEnd, Halting as _, Sabotage, broken, sabotage, wait_with};

/// What the first CPU waits on.
static WORD: AtomicU32 = AtomicU32::new(0);
/// The progress of the first CPU: it asks for a kick by a new number.
static ASKED: AtomicU32 = AtomicU32::new(0);
/// The progress of the second: the number of the last kick that it has sent.
static SENT: AtomicU32 = AtomicU32::new(0);
/// What the first CPU found wrong.
static WRONG: AtomicU32 = AtomicU32::new(0);
const LOST: u32 = 1;
const TWICE: u32 = 2;

/// How often the first CPU is kicked between its look and its halt.
const TIMES: u32 = 50;
const ROUNDS: u32 = 200;

fn until(word: &AtomicU32, is: u32) {
    while word.load(SeqCst) != is {
        core::hint::spin_loop();
    }
}

fn kick<K: Kernel>(cpu: usize) {
    K::Aware::kick(&raw const WORD, Cpu::new(cpu).expect("0 or 1"));
}

/// The second CPU's part: when asked, it changes the word, kicks, and says that it has kicked.
fn answer<K: Kernel>(rounds: u32) {
    for round in 1..=rounds {
        until(&ASKED, round);
        // At a different moment each time.
        (0..round % 64 * 8).for_each(|_| core::hint::spin_loop());
        WORD.store(round, SeqCst);
        kick::<K>(0);
        SENT.store(round, SeqCst);
    }
}

/// The first CPU's part once it has found something wrong: it lets the second one get to its end.
fn pass(round: u32) {
    ASKED.store(round, SeqCst);
    until(&SENT, round);
}

fn together<K: Kernel>(job: fn(usize)) -> Verdict {
    if cpus::started() < 2 {
        return Ok(());
    }
    [&WORD, &ASKED, &SENT, &WRONG].into_iter().for_each(|word| word.store(0, SeqCst));
    everywhere::<K>(job);
    match WRONG.load(SeqCst) {
        0 => Ok(()),
        TWICE => Err("a kick reached its CPU more than once"),
        _ => Err("a kick was lost"),
    }
}

/// The first CPU is kicked after it has looked and before it halts, for certain: it waits for the
/// second to say so.
pub(super) fn between<K: Kernel>() -> Verdict {
    fn is_lost<K: Kernel>(round: u32) -> bool {
        let asked = Cell::new(false);
        let ended = wait_with::<K::Aware>(&WORD, round - 1, None, || {
            let arrived = &cpus::this().tally.arrived;
            let before = arrived.load(Relaxed);
            ASKED.store(round, SeqCst);
            until(&SENT, round);
            asked.set(true);
            if broken(Sabotage::LooksEarly) && K::Aware::KICKS_INTERRUPT {
                await_change(|| arrived.load(Relaxed) != before);
            }
            if !K::Aware::KICKS_INTERRUPT {
                // The next tick is far away.
                halt::let_in_pending();
                K::tick_every_us(Some(TICK_US));
            }
        });
        if !asked.get() {
            // An earlier kick has ended it: try again.
            return is_lost::<K>(round);
        }
        by_kick(ended).is_err()
    }
    together::<K>(|cpu| match cpu {
        0 => with_ticks::<K, _>(|| {
            let (mut lost, mut alive) = (0, Alive::begin());
            for round in 1..=TIMES {
                alive.at(round.into());
                if WRONG.load(SeqCst) != 0 {
                    pass(round);
                    continue;
                }
                lost = if is_lost::<K>(round) { lost + 1 } else { 0 };
                if lost == tries::<K>() {
                    WRONG.store(LOST, SeqCst);
                }
            }
        }),
        1 => answer::<K>(TIMES),
        _ => {}
    })
}

/// The first CPU is kicked at any moment: before it looks, while it halts, when it is back. Each
/// kick must have reached it once, or have gone with an interrupt.
pub(super) fn each<K: Kernel>() -> Verdict {
    fn times_reached<K: Kernel>(round: u32) -> u64 {
        let before = K::Aware::reached();
        ASKED.store(round, SeqCst);
        if round.is_multiple_of(8) {
            // This one comes before the look, for certain.
            until(&SENT, round);
        }
        while WORD.load(SeqCst) != round {
            wait_with::<K::Aware>(&WORD, round - 1, None, || {});
        }
        until(&SENT, round);
        await_change(|| K::Aware::reached() != before);
        K::Aware::reached() - before
    }
    together::<K>(|cpu| match cpu {
        0 => with_ticks::<K, _>(|| {
            let (mut lost, mut alive) = (0, Alive::begin());
            for round in 1..=ROUNDS {
                alive.at(round.into());
                if WRONG.load(SeqCst) != 0 {
                    pass(round);
                    continue;
                }
                match times_reached::<K>(round) {
                    0 => lost += 1,
                    1 => lost = 0,
                    _ => WRONG.store(TWICE, SeqCst),
                }
                if lost == tries::<K>() {
                    WRONG.store(LOST, SeqCst);
                }
            }
        }),
        1 => answer::<K>(ROUNDS),
        _ => {}
    })
}

const TURNS: u32 = 1_000;
/// The same where CPUs that halt keep their processors busy: with fewer processors than CPUs, each
/// turn takes some of the host's time slices.
const BUSY_TURNS: u32 = 100;

/// Two CPUs each wait for the other's change of one word, and nothing else ends a wait, no timer
/// either. A lost kick stops both for ever, which the command notices.
pub(super) fn ping_pong<K: Kernel>() -> Verdict {
    fn turns() -> u32 {
        if Bare::halts_by_call() { BUSY_TURNS } else { TURNS }
    }
    together::<K>(|cpu| {
        if cpu > 1 {
            return;
        }
        let mut alive = Alive::begin();
        for turn in 0..turns() {
            if cpu == 0 {
                alive.at(turn.into());
            }
            let mine = turn * 2 + cpu as u32;
            while WORD.load(SeqCst) != mine {
                let other = WORD.load(SeqCst).min(mine.wrapping_sub(1));
                wait_with::<K::Aware>(&WORD, other, None, || {});
            }
            WORD.store(mine + 1, SeqCst);
            kick::<K>(1 - cpu);
        }
    })?;
    ensure(cpus::started() < 2 || WORD.load(Relaxed) == 2 * turns(), "not all turns were taken")
}

/// The second CPU had to kick twice.
const RESCUED: u32 = 2;

/// The first CPU waits without interrupts, and is kicked after its look. Where the platform is
/// broken, a second kick, from a sound one, ends the wait.
pub(super) fn interrupts_off<K: Kernel>() -> Verdict {
    together::<K>(|cpu| match cpu {
        0 => with_ticks::<K, _>(|| {
            let before = K::Aware::reached();
            let ended = io::without_interrupts(|| {
                let mut ended = HaltEnd::Early;
                while WORD.load(SeqCst) == 0 {
                    ended = wait_with::<K::Aware>(&WORD, 0, None, || ASKED.store(1, SeqCst));
                }
                while SENT.load(SeqCst) == 0 {
                    core::hint::spin_loop();
                }
                ended
            });
            // Xen may have ended the wait of its own accord a moment before the kick.
            let came = ended == HaltEnd::Kicked || K::Aware::reached() != before;
            if !came || SENT.load(SeqCst) == RESCUED {
                WRONG.store(LOST, SeqCst);
            }
        }),
        1 => {
            until(&ASKED, 1);
            WORD.store(1, SeqCst);
            kick::<K>(0);
            if broken(Sabotage::KicksNobody) {
                clock::spin_ns(u64::from(TICK_US) * 1000);
                SENT.store(RESCUED, SeqCst);
                sabotage(Sabotage::None);
                kick::<K>(0);
            } else {
                SENT.store(1, SeqCst);
            }
        }
        _ => {}
    })
}
