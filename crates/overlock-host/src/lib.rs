//! The hypervisor side.
