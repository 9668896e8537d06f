module tuffet

go 1.19
