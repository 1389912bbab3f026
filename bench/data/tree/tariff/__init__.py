from .parcel import Parcel, ParcelError, parse
from .rates import price, zone_of
from .depot import Depot
from .label import label
