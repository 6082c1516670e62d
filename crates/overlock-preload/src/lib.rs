//! The pthread replacement.
