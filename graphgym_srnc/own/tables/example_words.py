"""The words of the made-up documents: of each topic its own, and those that all of them use."""

TOPICS = {topic: words.split() for topic, words in {
    "astronomy": """
        telescope galaxy nebula comet orbit planet asteroid eclipse supernova quasar pulsar
        meteor starlight redshift parallax cosmos lunar solar equinox satellite observatory
        corona dwarf exoplanet constellation zenith perihelion spectrum crater gravity
        photon milky saturn jupiter venus mercury neptune uranus magnitude interstellar""",
    "botany": """
        petal stamen pollen seedling foliage chlorophyll fern moss orchid stem leaf blossom
        bark sapling conifer lichen pistil sepal rhizome tuber bulb stalk photosynthesis
        herbarium perennial deciduous evergreen shrub vine ivy oak maple birch willow tulip
        daisy lily thistle clover nettle""",
    "cooking": """
        recipe oven simmer roast garlic onion butter flour dough sauce pepper saffron
        skillet whisk broth soup stew marinade basil thyme oregano paprika vinegar mustard
        pastry yeast caramel custard risotto noodle dumpling braise fry bake grill saucepan
        spatula chef pantry dessert""",
    "dance": """
        ballet tango waltz rhythm choreography pirouette stage rehearsal costume partner
        samba salsa flamenco troupe ballroom tempo posture plie arabesque leap twirl foxtrot
        rumba polka swing jive hiphop breakdance ensemble studio barre tutu slipper tapdance
        quickstep mambo bolero minuet gavotte encore""",
    "economics": """
        inflation market tariff treasury wage currency deficit monopoly labour budget tax
        subsidy recession supply demand export import capital dividend bond stock investor
        bank credit debt profit revenue price income consumption savings mortgage
        unemployment auction cartel welfare fiscal monetary liquidity equity""",
    "fishing": """
        trout salmon angler bait hook reel lure rod net trawler harbour tide carp pike perch
        cod herring mackerel tuna eel boat anchor buoy pier catch shoal spawning hatchery
        river lake bobber sinker tackle waders flyfishing fishery squid crab lobster shrimp""",
    "geology": """
        basalt granite sediment fault mineral quartz volcano magma lava erosion glacier
        fossil limestone sandstone shale slate marble tectonic earthquake strata bedrock
        mantle crust canyon ridge feldspar mica obsidian pumice gneiss schist moraine
        aquifer stalactite cavern seismograph subduction geyser dolomite gypsum""",
}.items()}

SHARED = """
    study method history theory practice survey review guide question answer problem result
    report model pattern measure change growth origin future present past modern ancient early
    late rapid slow simple complex general special local global northern southern eastern
    western common rare large small public private open closed formal informal natural
    artificial visible hidden direct indirect stable annual daily weekly monthly seasonal
    regional national urban rural coastal central remote popular classic standard basic
    advanced careful brief detailed complete partial recent novel original typical unusual
    famous unknown important useful possible likely certain doubtful effective efficient
    reliable robust flexible careless precise exact rough smooth bright dark light heavy
    strong weak warm cold dry wet deep shallow wide narrow long short high low young old
    analysis approach argument article aspect author balance basis behaviour benefit boundary
    case category cause chapter choice claim collection comparison concept condition conflict
    context contrast control culture data debate decade decision degree design development
    difference direction discussion distance effect effort element energy environment error
    essay evidence example experience experiment expert explanation factor failure feature
    figure focus force form framework function goal group heritage idea identity image impact
    industry influence information insight instrument interview introduction journal journey
    knowledge language lecture legacy lesson level limit link list machine manual material
    meaning memory message mind moment movement museum nature network notion number object
    observation opinion order outcome overview paper path people period perspective phase
    picture place plan point policy position power principle process product programme
    progress project proposal quality range rate reason record reference relation research
    resource response risk role rule sample scale schedule school science season section
    sequence series service signal skill society solution source space speed standardised
    statement status step story strategy structure student style success summary symbol table
    task teacher technique technology term test text title tool topic tradition training
    transition""".split()
