//! Spin locks for CPUs that get taken away.
