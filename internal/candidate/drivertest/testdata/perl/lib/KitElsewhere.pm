package KitElsewhere;

sub here { return "elsewhere" }

1;
