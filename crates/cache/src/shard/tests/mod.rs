mod doubts;
mod policies;
