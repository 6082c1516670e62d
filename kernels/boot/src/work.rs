//! What the kernel does with the locks: the workload that every world has, and its checks.

mod checks;
mod conformance;
mod contract;
mod family;
mod locks;
mod micro;
mod nesting;
mod page;
mod samples;
mod waits;

use crate::kernel::Kernel;
use crate::plan::CommandLine;
use crate::say;
use crate::{cpus, machine, platform};

/// Does everything in the plan, and ends the machine.
pub fn run<K: Kernel>(plan: CommandLine<'_>) -> ! {
    K::arrive();
    if let Some(how) = plan.get("broken") {
        platform::sabotage(platform::Sabotage::called(how).expect("a way to break a platform"));
    }
    let mut fine = true;
    for part in plan.list("do", "micro") {
        fine &= match part {
            "micro" => micro::rounds::<K>(plan),
            "contract" => contract::check::<K>(),
            "conformance" => conformance::check::<K>(plan) & family::check::<K>(plan),
            "nesting" => nesting::check::<K>(plan),
            "hang" => loop {
                core::hint::spin_loop();
            },
            "fault" => panic!("a fault, as asked for"),
            "reset" => machine::io::reset(),
            other => panic!("there is nothing to do called {other}"),
        };
    }
    for cpu in 0..cpus::started() {
        let tally = cpus::of(cpu).tally.all();
        let of = |name| tally.iter().find(|(own, _)| *own == name).map_or(0, |(_, n)| *n);
        let [early, halts, futile, kicks] = ["early", "halts", "futile", "kicks"].map(of);
        say!(
            "{{\"kind\":\"cpu\",\"cpu\":{cpu},\"early\":{early},\"halts\":{halts},\
             \"futile\":{futile},\"kicks\":{kicks},\"stolen_ns\":{}}}",
            K::stolen_ns(cpu)
        );
    }
    say!("{{\"kind\":\"end\",\"fine\":{fine}}}");
    K::exit(u8::from(!fine))
}
