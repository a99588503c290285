//! Empty: the dependency is what is wanted.
