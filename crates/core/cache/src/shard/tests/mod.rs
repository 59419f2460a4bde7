mod discards;
mod doubts;
mod policies;
mod ready;
