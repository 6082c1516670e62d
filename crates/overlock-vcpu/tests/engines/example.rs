//! Does the example of a VMM run, and let its vCPUs in only while the scheduler does?

#[path = "../../examples/vmm.rs"]
#[allow(dead_code, reason = "its `main` reads the words of a command line")]
mod vmm;

use std::time::Instant;

use crate::support;

#[test]
fn vcpus_that_share_pcpus_all_finish_and_never_run_on_more() {
    if !support::available("the example of a VMM") {
        return;
    }
    for (vcpus, pcpus) in [(1, 1), (3, 1), (3, 2)] {
        let start = Instant::now();
        let lives = vmm::run(vcpus, pcpus).expect("a machine that counts");
        let span = start.elapsed().as_nanos() as u64;
        assert_eq!(lives.len(), vcpus as usize);
        assert!(lives.iter().all(|&(said, _)| said == 1), "each says so once: {lives:?}");
        let ran: u64 = lives.iter().map(|(_, usage)| usage.ran.0).sum();
        assert!(ran <= span * u64::from(pcpus), "{ran} ns on {pcpus} pCPUs in {span} ns");
        // If there are more vCPUs than pCPUs, some vCPU has waited.
        let waited = lives.iter().any(|(_, usage)| usage.steal.0 > 0);
        assert_eq!(waited, vcpus > pcpus, "{lives:?}");
    }
}
