mod discards;
mod doubts;
mod policies;
