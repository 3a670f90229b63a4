//! What one iteration executes, instruction by instruction.

pub mod allocations;
pub mod callgrind;
pub mod disassembly;
pub mod table;
