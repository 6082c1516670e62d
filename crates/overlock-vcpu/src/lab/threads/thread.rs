// SPDX-License-Identifier: MIT OR Apache-2.0
//! The life of a vCPU's thread, from its start to what the host learns of its end.

use std::panic::{AssertUnwindSafe, catch_unwind};

use overlock_bench::Program;

use super::calls::Calls;
use super::context::{Context, Left};
use super::fault;
use crate::lab::Error;
use crate::lab::engine::Runner;
use crate::lab::guest::door::begin;
use crate::lab::host::Host;
use crate::lab::host::state::{Exit, Next};

/// A vCPU that has not started.
#[derive(Debug)]
pub(crate) struct Thread {
    /// Runs the program as the vCPU of a context's record.
    pub(crate) body: extern "C" fn(&Context),
}

impl Runner for Thread {
    fn run(self, host: &Host, number: u32) {
        let context = Context::new(host, number);
        context.run(self.body);
        tell_end(&context);
    }
}

/// Tells the host how the program ended.
fn tell_end(context: &Context) {
    let (host, number) = (context.host(), context.record().number);
    let result = match context.ended() {
        Left { error: Some(error), .. } => Err(error),
        Left { fault: Some((signal, code, accessed)), .. } => Err(Error::Fault {
            vcpu: number,
            what: fault::explain(signal, code, accessed, context.bottom()),
            place: context.left_at(),
        }),
        // The program has returned, or never started, in which case the host knows.
        Left { address: 0, .. } => Ok(()),
        Left { .. } => return host.abandoned(number, || context.left_at()),
    };
    let _ = host.exit(number, Exit::Ended(result));
}

/// Runs the program. The only entry.
pub(crate) extern "C" fn body<P: Program<Calls>>(context: &Context) {
    // SAFETY: the record was made for a program of this type, which outlives the run.
    let program = unsafe { &*context.record().program.cast::<P>() };
    if context.exit(Exit::Ready) == Next::Leave {
        return;
    }
    context.interrupt();
    // The hook of `fault` has recorded the panic, if there was one.
    let _ = catch_unwind(AssertUnwindSafe(|| begin::<Calls, P>(program)));
    context.set_in_guest(false);
}
