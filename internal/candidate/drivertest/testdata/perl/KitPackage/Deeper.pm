package KitPackage::Deeper;

sub here { return "nested" }

1;
