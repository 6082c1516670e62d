//! The first process of a Linux that has nothing else: loads KVM, runs one machine, and powers off.
//!
//! The root that it starts in holds this program as `/init`, the modules below `/modules` in the
//! order of their names, and in `/guest` the words of the command, one a line.
//!
//! The guest's lines go to the second serial port, so that none of Linux's own comes in between.

use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::{io, ptr};

use crate::machine::Machine;
use crate::options::{Options, Result};

/// The words of the command.
const GUEST: &str = "/guest";
/// The serial port that Linux does not write to.
const OUTPUT: &str = "/dev/ttyS1";

fn mount(kind: &CStr, at: &CStr) -> io::Result<()> {
    fs::create_dir_all(at.to_str().unwrap_or("/"))?;
    // SAFETY: strings that end in zero; no data.
    let done = unsafe { libc::mount(kind.as_ptr(), at.as_ptr(), kind.as_ptr(), 0, ptr::null()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn load_modules() -> Result<()> {
    let mut modules: Vec<PathBuf> =
        fs::read_dir("/modules")?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    modules.sort();
    for path in modules {
        let file = File::open(&path)?;
        // SAFETY: a file that is open, and a string that ends in zero.
        let done =
            unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), c"".as_ptr(), 0) };
        if done != 0 {
            let error = io::Error::last_os_error();
            return Err(format!("{} can't be loaded: {error}", path.display()).into());
        }
    }
    Ok(())
}

/// Lets standard output be the second serial port. Without one, it stays Linux's console.
fn use_second_port() {
    if let Ok(port) = OpenOptions::new().write(true).open(OUTPUT) {
        // SAFETY: two numbers of open files; what was standard output is used nowhere else.
        unsafe { libc::dup2(port.as_raw_fd(), libc::STDOUT_FILENO) };
    }
}

fn machine(words: &str) -> Result<u8> {
    mount(c"devtmpfs", c"/dev")?;
    use_second_port();
    mount(c"sysfs", c"/sys")?;
    mount(c"debugfs", c"/sys/kernel/debug")?;
    load_modules()?;
    let options = Options::parse(words.lines().map(String::from))?;
    Machine::new(options)?.run()
}

/// Does it all. Does not return.
#[expect(clippy::print_stdout, reason = "it is what people read")]
pub(crate) fn run() -> ! {
    let words = fs::read_to_string(GUEST).unwrap_or_default();
    match machine(&words) {
        Ok(code) => println!("the machine ended with code {code}"),
        Err(error) => println!("the machine ended: {error}"),
    }
    // A machine that is switched off loses what its serial port has not sent yet.
    // SAFETY: an open file, and nothing is left to be written.
    unsafe {
        libc::tcdrain(libc::STDOUT_FILENO);
        libc::reboot(libc::RB_POWER_OFF);
    }
    loop {
        std::thread::park();
    }
}
