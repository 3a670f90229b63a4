//! What a run was made from: the machine, the compiler, the repository.

pub(crate) mod codegen;
pub(crate) mod gate;
pub(crate) mod kernel;
pub(crate) mod repository;
