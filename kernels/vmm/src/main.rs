//! A virtual machine on KVM in a few hundred lines: one kernel that follows PVH, vCPUs that are
//! threads, interrupt controller and timer in KVM, and a serial port for output.
//!
//! It runs the kernel image of `overlock-boot` in `overlock bench --in kvm-guest`, as a program on
//! a machine with KVM, or as the first process of a Linux that has nothing else ([`init`]). A
//! monitor of your own needs no more for paravirtual spin locks than what [`cpuid`] does: a kick
//! and the wake-up that it causes are KVM's own business.
//!
//! | file | what |
//! |---|---|
//! | [`options`] | what to run |
//! | [`machine`] | memory, and the threads |
//! | [`load`] | the kernel in it, by PVH, and what it is told |
//! | [`vcpu`] | what a vCPU starts with, and what it does when KVM hands it over |
//! | [`cpuid`] | which paravirtual features the guest is offered |
//! | [`page`] | what the guest shares with the host's scheduler |
//! | [`console`], [`counters`] | what the kernel writes, and what KVM counts |
//! | [`init`] | the first process |

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod console;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod counters;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod cpuid;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod init;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod load;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod machine;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod options;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod page;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod vcpu;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[expect(clippy::print_stderr, reason = "a program for people")]
fn main() -> std::process::ExitCode {
    use std::process::ExitCode;

    if std::process::id() == 1 {
        init::run();
    }
    let ended = options::Options::parse(std::env::args().skip(1)).and_then(|options| {
        let machine = machine::Machine::new(options)?;
        machine.run()
    });
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn main() {}
