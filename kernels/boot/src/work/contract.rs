//! The platform contract, clause by clause. Each check runs on the platform as it is, and then on
//! one that is broken on purpose, which it must find.
//!
//! The checks look at how a wait *ended* ([`HaltEnd`]), which the platform knows, and not at how
//! long it took: a busy host may stop a machine at any instruction. The timer ticks meanwhile, so
//! that a wait that has lost its kick ends too.

mod calls;
mod rest;
mod support;
mod waits;

use support::Verdict;

use super::checks::{begin, tell};
use crate::cpus;
use crate::kernel::Kernel;
use crate::platform::{Halting as _, Sabotage, sabotage};

/// A clause, its check, and the defects that the check must find.
struct Clause {
    what: &'static str,
    check: fn() -> Verdict,
    finds: &'static [Sabotage],
}

#[rustfmt::skip]
fn clauses<K: Kernel>() -> [Clause; 15] {
    use Sabotage::*;
    let clause = |what, check, finds| Clause { what, check, finds };
    [
        clause("P1 wait returns at once if the word differs", waits::p1::<K>, &[NeverLooks]),
        clause("P2 an interrupt ends a wait", waits::p2::<K>, &[NeverHalts]),
        clause("a wait ends at its deadline and not before", waits::deadline::<K>, &[ForgetsTime]),
        clause("P3 a kick between look and halt is not lost", waits::own::<K>, &[LooksEarly, LosesGrace, KicksNobody]),
        clause("P3 a kick before the look is not lost", waits::before::<K>, &[NeverLooks]),
        clause("P3 a nested wait leaves the outer one its kick", waits::nested::<K>, &[ForgetsOuter]),
        clause("P3 another CPU's kick between look and halt is not lost", calls::between::<K>, &[LooksEarly, LosesGrace, KicksNobody]),
        clause("P3 each kick reaches its CPU once, at whatever moment", calls::each::<K>, &[KicksNobody]),
        clause("P3 two CPUs call each other back", calls::ping_pong::<K>, &[]),
        clause("P3 a kick ends a wait with interrupts off", calls::interrupts_off::<K>, &[KicksNobody]),
        clause("P4 a CPU that is not up is not kicked", rest::p4::<K>, &[KicksAnybody]),
        clause("each CPU has its own ticks", rest::ticks::<K>, &[]),
        clause("P7 and P8 numbers and slots are unique and kept", rest::p7::<K>, &[SharesNumbers]),
        clause("P9 the clock does not go backwards", rest::p9::<K>, &[TurnsBack]),
        clause("P10 waiting can be switched off", rest::p10::<K>, &[AlwaysWaits]),
    ]
}

/// Whether a platform of this world can have this defect.
fn can_be<K: Kernel>(how: Sabotage) -> bool {
    match how {
        // An interrupt is held back: a nested wait has nothing to take away.
        Sabotage::ForgetsOuter => !K::Aware::KICKS_INTERRUPT,
        // A kick that is remembered ends a halt however late that begins.
        Sabotage::LosesGrace => K::Aware::KICKS_INTERRUPT,
        Sabotage::SharesNumbers | Sabotage::AlwaysWaits => cpus::started() > 1,
        _ => true,
    }
}

/// Checks all clauses. Returns whether all are kept, and all defects are found.
pub(super) fn check<K: Kernel>() -> bool {
    let mut fine = true;
    let f8 = Clause {
        what: "F8 a wait in a non-maskable interrupt returns at once",
        check: waits::nmi::<K>,
        finds: &[Sabotage::HaltsAnywhere],
    };
    for Clause { what, check, finds } in clauses::<K>().into_iter().chain([f8]) {
        begin(what);
        let found = check();
        fine &= tell(format_args!("contract: {what}"), found.is_ok(), found.err().unwrap_or(""));
        for &how in finds.iter().filter(|how| can_be::<K>(**how)) {
            sabotage(how);
            let found = check();
            sabotage(Sabotage::None);
            let what = format_args!("contract: {what}: a platform that {how} is found");
            fine &= tell(what, found.is_err(), found.err().unwrap_or("nothing was noticed"));
        }
    }
    fine
}
