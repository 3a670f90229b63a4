//! What one iteration executes, instruction by instruction.

pub mod callgrind;
pub mod disassembly;
